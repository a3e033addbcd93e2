"""Other dialects and sugar, rewritten to canonical nodes before anything is read. The runtime knows nothing of them."""
