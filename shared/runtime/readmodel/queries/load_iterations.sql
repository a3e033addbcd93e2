SELECT
    execution_id, step_run_id AS run_id, iteration, status, worker, epoch_ns, epoch_try, n, claims, task, task_n
FROM noetl.iteration JOIN unnest($1::text[], $2::text[], $3::int[]) AS k (execution_id, step_run_id, iteration)
USING (execution_id, step_run_id, iteration)
