INSERT INTO noetl.execution AS old (
    execution_id, partition, started_at, updated_at, path, version, digest, status, finished_at,
    workload, result, result_ref, error, seq, parent_id, labels
)
SELECT * FROM unnest(
    $1::text[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::timestamptz[], $10::jsonb[], $11::jsonb[], $12::jsonb[], $13::jsonb[], $14::bigint[], $15::text[],
    $16::jsonb[]
)
ON CONFLICT (execution_id) DO UPDATE SET
    updated_at = EXCLUDED.updated_at,
    path = EXCLUDED.path,
    version = EXCLUDED.version,
    digest = EXCLUDED.digest,
    status = EXCLUDED.status,
    finished_at = COALESCE(old.finished_at, EXCLUDED.finished_at),
    workload = COALESCE(old.workload, EXCLUDED.workload),
    result = COALESCE(old.result, EXCLUDED.result),
    result_ref = COALESCE(old.result_ref, EXCLUDED.result_ref),
    error = COALESCE(old.error, EXCLUDED.error),
    seq = EXCLUDED.seq,
    parent_id = COALESCE(old.parent_id, EXCLUDED.parent_id),
    labels = COALESCE(old.labels, EXCLUDED.labels)
WHERE old.seq < EXCLUDED.seq
