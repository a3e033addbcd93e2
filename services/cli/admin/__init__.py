"""`noetlctl admin` and `dlq`: what is removed, what is kept, dead letters."""
