"""`noetlctl why`: the world around an execution, and the answer as text."""
