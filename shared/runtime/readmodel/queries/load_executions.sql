SELECT
    execution_id, partition, started_at, updated_at, path, version, digest, status, seq, trace_id, router_n,
    scheduler_n, controls
FROM noetl.execution WHERE execution_id = ANY ($1::text[])
