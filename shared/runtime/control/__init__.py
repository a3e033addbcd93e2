"""The shell of a control service: follow, fold, decide, append, send, cursor."""
