"""What must hold in every history, checked without the folds of the engine."""
