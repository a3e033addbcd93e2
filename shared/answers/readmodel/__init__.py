"""The rows of the read model, folded from records: for the projector and for whoever checks it."""
