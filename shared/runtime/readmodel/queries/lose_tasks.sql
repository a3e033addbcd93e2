UPDATE noetl.task_run AS t SET status = 'lost', finished_at = e.at
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS e (execution_id, step_run_id, at)
WHERE t.execution_id = e.execution_id AND t.step_run_id = e.step_run_id AND t.status = 'running'
