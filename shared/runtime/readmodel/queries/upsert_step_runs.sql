-- The epoch fences: a row a later lease has touched is not changed by an earlier one.
INSERT INTO noetl.step_run AS old (
    execution_id, step_run_id, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
)
SELECT
    execution_id, step_run_id, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
FROM unnest(
    $1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[],
    $9::timestamptz[], $10::text[], $11::bigint[], $12::int[], $13::bigint[], $14::int[], $15::text[],
    $16::bigint[], $17::jsonb[], $18::jsonb[], $19::jsonb[]
) AS new (
    execution_id, step_run_id, iteration, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
)
ON CONFLICT (execution_id, step_run_id) DO UPDATE SET
    step = EXCLUDED.step,
    status = EXCLUDED.status,
    pool = EXCLUDED.pool,
    scheduled_at = COALESCE(old.scheduled_at, EXCLUDED.scheduled_at),
    started_at = COALESCE(old.started_at, EXCLUDED.started_at),
    finished_at = COALESCE(old.finished_at, EXCLUDED.finished_at),
    worker = EXCLUDED.worker,
    epoch_ns = EXCLUDED.epoch_ns,
    epoch_try = EXCLUDED.epoch_try,
    n = EXCLUDED.n,
    claims = EXCLUDED.claims,
    task = EXCLUDED.task,
    task_n = EXCLUDED.task_n,
    result = COALESCE(old.result, EXCLUDED.result),
    result_ref = COALESCE(old.result_ref, EXCLUDED.result_ref),
    error = COALESCE(old.error, EXCLUDED.error)
WHERE (old.epoch_ns, old.epoch_try) <= (EXCLUDED.epoch_ns, EXCLUDED.epoch_try)
