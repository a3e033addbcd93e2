SELECT
    execution_id, step_run_id AS run_id, step, status, pool, worker, epoch_ns, epoch_try, n, claims, task, task_n
FROM noetl.step_run JOIN unnest($1::text[], $2::text[]) AS k (execution_id, step_run_id)
USING (execution_id, step_run_id)
