UPDATE noetl.loop AS old SET
    step = new.step,
    status = new.status,
    count = new.count,
    max_in_flight = new.max_in_flight,
    started = new.started,
    done = new.done,
    failed = new.failed,
    local = new.local,
    begun = new.begun,
    started_at = COALESCE(old.started_at, new.started_at),
    finished_at = COALESCE(old.finished_at, new.finished_at)
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[],
    $10::timestamptz[], $11::timestamptz[], $12::boolean[], $13::int[]
) AS new (
    execution_id, step_run_id, step, status, count, max_in_flight, started, done, failed, started_at, finished_at,
    local, begun
)
WHERE old.execution_id = new.execution_id AND old.step_run_id = new.step_run_id
