INSERT INTO noetl.iteration AS old (
    execution_id, step_run_id, iteration, status, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
)
SELECT
    execution_id, step_run_id, iteration, status, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
FROM {run_rows}
ON CONFLICT (execution_id, step_run_id, iteration) DO UPDATE SET
{run_changes}
