"""How fast the engine is, and how far that is from what the broker and the client allow."""
