"""`noetlctl doctor`: one module for each thing that is looked at."""
