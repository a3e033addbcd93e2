SELECT execution_id, key, value, updated_seq AS seq
FROM noetl.ctx JOIN unnest($1::text[], $2::text[]) AS k (execution_id, key) USING (execution_id, key)
