INSERT INTO noetl.ctx AS old (execution_id, key, value, updated_seq)
SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::bigint[])
ON CONFLICT (execution_id, key) DO UPDATE SET value = EXCLUDED.value, updated_seq = EXCLUDED.updated_seq
WHERE old.updated_seq < EXCLUDED.updated_seq
