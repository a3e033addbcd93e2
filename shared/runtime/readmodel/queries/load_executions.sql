SELECT execution_id, partition, started_at, updated_at, path, version, digest, status, seq
FROM noetl.execution WHERE execution_id = ANY ($1::text[])
