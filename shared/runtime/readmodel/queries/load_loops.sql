SELECT
    execution_id, step_run_id AS run_id, step, status, count, max_in_flight, started, done, failed, local, begun
FROM noetl.loop JOIN unnest($1::text[], $2::text[]) AS k (execution_id, step_run_id)
USING (execution_id, step_run_id)
