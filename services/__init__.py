"""The services, each a thin shell around a core in `shared`, and the command line. None imports another."""
