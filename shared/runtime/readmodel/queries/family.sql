WITH RECURSIVE down (execution_id) AS (
    SELECT $1::text
    UNION
    SELECT e.execution_id FROM down CROSS JOIN LATERAL (
        SELECT c.execution_id FROM noetl.execution AS c WHERE c.parent_id = down.execution_id
        UNION ALL
        SELECT r.execution_id FROM noetl.execution AS r WHERE r.rerun_of = down.execution_id
    ) AS e
)
SELECT m.execution_id, e.status, e.finished_at
FROM (SELECT execution_id FROM down LIMIT $2) AS m LEFT JOIN noetl.execution AS e USING (execution_id)
