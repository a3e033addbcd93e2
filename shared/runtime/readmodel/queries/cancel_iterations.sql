UPDATE noetl.iteration AS i SET status = 'cancelled', finished_at = e.at, task = '', task_n = 0
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS e (execution_id, step_run_id, at)
WHERE i.execution_id = e.execution_id AND i.step_run_id = e.step_run_id AND i.status IN ('running', 'waiting')
    AND NOT EXISTS (
        SELECT FROM unnest($4::text[], $5::text[], $6::int[]) AS folded (execution_id, step_run_id, iteration)
        WHERE (folded.execution_id, folded.step_run_id, folded.iteration)
            = (i.execution_id, i.step_run_id, i.iteration)
    )
