INSERT INTO noetl.step_run AS old (
    execution_id, step_run_id, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
)
SELECT
    execution_id, step_run_id, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
FROM {run_rows}
ON CONFLICT (execution_id, step_run_id) DO UPDATE SET
    step = EXCLUDED.step,
    pool = EXCLUDED.pool,
    scheduled_at = COALESCE(old.scheduled_at, EXCLUDED.scheduled_at),
{run_changes}
