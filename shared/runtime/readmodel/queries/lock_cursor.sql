INSERT INTO noetl.cursor AS old (partition, seq) VALUES ($1, 0)
ON CONFLICT (partition) DO UPDATE SET seq = old.seq
RETURNING seq, (SELECT max(version) FROM noetl.schema_migration) AS schema
