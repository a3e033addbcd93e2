"""The services of the engine and its command line."""
