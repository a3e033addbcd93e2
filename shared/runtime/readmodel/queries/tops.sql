WITH RECURSIVE up (candidate, execution_id, depth) AS (
    SELECT each, each, 0 FROM unnest($1::text[]) AS each
    UNION ALL
    SELECT up.candidate, coalesce(e.parent_id, e.rerun_of), up.depth + 1
    FROM up JOIN noetl.execution AS e USING (execution_id)
    WHERE coalesce(e.parent_id, e.rerun_of) IS NOT NULL AND up.depth < $2
)
SELECT DISTINCT ON (candidate) candidate, execution_id AS top, depth FROM up ORDER BY candidate, depth DESC
