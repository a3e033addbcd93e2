SELECT
    e.execution_id, e.finished_at,
    NOT EXISTS (SELECT FROM noetl.purged AS p WHERE p.execution_id = e.execution_id)
        OR EXISTS (SELECT FROM noetl.record_group AS r WHERE r.execution_id = e.execution_id) AS there
FROM noetl.execution AS e
WHERE e.finished_at < $1 AND (e.finished_at, e.execution_id) > ($2, $3)
ORDER BY e.finished_at, e.execution_id LIMIT $4
