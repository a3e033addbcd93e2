UPDATE noetl.task_run AS t SET status = 'lost', finished_at = e.at
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS e (execution_id, step_run_id, at)
WHERE t.execution_id = e.execution_id AND t.step_run_id = e.step_run_id AND t.status = 'running'
    AND NOT EXISTS (
        SELECT FROM unnest($4::text[], $5::text[], $6::int[]) AS folded (execution_id, step_run_id, iteration)
        WHERE (folded.execution_id, folded.step_run_id, folded.iteration)
            = (t.execution_id, t.step_run_id, t.iteration)
    )
