"""`noetlctl test`: suites, their output, coverage."""
