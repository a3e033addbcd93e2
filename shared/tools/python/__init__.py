"""`kind: python`: warm child processes that run the author's code."""
