INSERT INTO noetl.repeated (execution_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING
