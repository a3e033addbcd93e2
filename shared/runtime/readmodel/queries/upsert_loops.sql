INSERT INTO noetl.loop AS old (
    execution_id, step_run_id, step, status, count, max_in_flight, started, done, failed, started_at, finished_at,
    local, begun
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[],
    $10::timestamptz[], $11::timestamptz[], $12::boolean[], $13::int[]
)
ON CONFLICT (execution_id, step_run_id) DO UPDATE SET
    step = EXCLUDED.step,
    status = EXCLUDED.status,
    count = EXCLUDED.count,
    max_in_flight = EXCLUDED.max_in_flight,
    started = EXCLUDED.started,
    done = EXCLUDED.done,
    failed = EXCLUDED.failed,
    local = EXCLUDED.local,
    begun = EXCLUDED.begun,
    started_at = COALESCE(old.started_at, EXCLUDED.started_at),
    finished_at = COALESCE(old.finished_at, EXCLUDED.finished_at)
