UPDATE noetl.task_run AS old SET
    status = new.status,
    directive = new.directive,
    target = new.target,
    delay_s = new.delay_s,
    started_at = COALESCE(old.started_at, new.started_at),
    finished_at = COALESCE(old.finished_at, new.finished_at),
    error = COALESCE(old.error, new.error)
FROM unnest(
    $1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::bigint[], $7::text[], $8::text[], $9::text[],
    $10::float8[], $11::timestamptz[], $12::timestamptz[], $13::jsonb[]
) AS new (
    execution_id, step_run_id, iteration, epoch_ns, epoch_try, n, status, directive, target, delay_s, started_at,
    finished_at, error
)
WHERE (old.execution_id, old.step_run_id, old.iteration, old.epoch_ns, old.epoch_try, old.n)
    = (new.execution_id, new.step_run_id, new.iteration, new.epoch_ns, new.epoch_try, new.n)
    AND old.status = 'running'
