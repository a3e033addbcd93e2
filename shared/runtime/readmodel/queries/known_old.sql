SELECT execution_id FROM noetl.execution
WHERE execution_id = ANY ($1::text[]) AND finished_at < $2 ORDER BY finished_at, execution_id
