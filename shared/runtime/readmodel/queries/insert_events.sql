INSERT INTO noetl.event (
    execution_id, event_id, event_type, ts, n, source, entity_type, entity_id, status,
    step_run_id, task_run_id, trace_id, parent_id, partition, seq, payload
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::bigint[], $16::jsonb[]
)
ON CONFLICT (execution_id, event_id) DO NOTHING
