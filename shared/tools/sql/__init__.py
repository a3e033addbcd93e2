"""What the SQL kinds share: statements, parameters, rows, inserts."""
