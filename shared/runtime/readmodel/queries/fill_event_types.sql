INSERT INTO noetl.event_type AS old (event_type, entity_type, status, path, statuses) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (event_type) DO UPDATE SET
    entity_type = EXCLUDED.entity_type, status = EXCLUDED.status, path = EXCLUDED.path, statuses = EXCLUDED.statuses
WHERE (old.entity_type, old.status, old.path, old.statuses)
    IS DISTINCT FROM (EXCLUDED.entity_type, EXCLUDED.status, EXCLUDED.path, EXCLUDED.statuses)
