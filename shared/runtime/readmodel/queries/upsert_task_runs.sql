INSERT INTO noetl.task_run AS old (
    execution_id, step_run_id, iteration, epoch_ns, epoch_try, n, task_run_id, task, attempt, status,
    directive, target, delay_s, started_at, finished_at, error
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::bigint[], $7::text[], $8::text[], $9::int[],
    $10::text[], $11::text[], $12::text[], $13::float8[], $14::timestamptz[], $15::timestamptz[], $16::jsonb[]
)
ON CONFLICT (execution_id, step_run_id, iteration, epoch_ns, epoch_try, n) DO UPDATE SET
    status = EXCLUDED.status,
    directive = EXCLUDED.directive,
    target = EXCLUDED.target,
    delay_s = EXCLUDED.delay_s,
    started_at = COALESCE(old.started_at, EXCLUDED.started_at),
    finished_at = COALESCE(old.finished_at, EXCLUDED.finished_at),
    error = COALESCE(old.error, EXCLUDED.error)
WHERE old.status = 'running'
