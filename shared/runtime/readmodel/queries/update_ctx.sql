UPDATE noetl.ctx AS old SET value = new.value, updated_seq = new.seq
FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::bigint[]) AS new (execution_id, key, value, seq)
WHERE old.execution_id = new.execution_id AND old.key = new.key
