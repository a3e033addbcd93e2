"""`noetlctl pool`: what is there, what is wanted, and how it is shown."""
