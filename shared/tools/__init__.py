"""The tool kinds, one file or package each, and their registry. A tool gets a call and gives an outcome; it knows
nothing of the log."""
