"""Values of an execution: ctx patches, the names a template sees, and values that are stored beside the log."""
