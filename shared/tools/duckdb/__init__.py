"""`kind: duckdb` and `kind: ducklake`, with the guard around what SQL may touch."""
