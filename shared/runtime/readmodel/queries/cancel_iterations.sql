UPDATE noetl.iteration AS i SET status = 'cancelled', finished_at = e.at, task = '', task_n = 0
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS e (execution_id, step_run_id, at)
WHERE i.execution_id = e.execution_id AND i.step_run_id = e.step_run_id AND i.status IN ('running', 'waiting')
