UPDATE noetl.execution AS old SET
    updated_at = new.updated_at,
    path = new.path,
    version = new.version,
    digest = new.digest,
    status = new.status,
    finished_at = COALESCE(old.finished_at, new.finished_at),
    workload = COALESCE(old.workload, new.workload),
    result = COALESCE(old.result, new.result),
    result_ref = COALESCE(old.result_ref, new.result_ref),
    error = COALESCE(old.error, new.error),
    seq = new.seq,
    parent_id = COALESCE(old.parent_id, new.parent_id),
    labels = COALESCE(old.labels, new.labels),
    router_n = new.router_n,
    scheduler_n = new.scheduler_n,
    controls = new.controls,
    rerun_of = COALESCE(old.rerun_of, new.rerun_of)
FROM unnest(
    $1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::jsonb[],
    $9::jsonb[], $10::jsonb[], $11::jsonb[], $12::bigint[], $13::text[], $14::jsonb[], $15::bigint[], $16::bigint[],
    $17::bigint[], $18::text[]
) AS new (
    execution_id, updated_at, path, version, digest, status, finished_at, workload, result, result_ref, error, seq,
    parent_id, labels, router_n, scheduler_n, controls, rerun_of
)
WHERE old.execution_id = new.execution_id
