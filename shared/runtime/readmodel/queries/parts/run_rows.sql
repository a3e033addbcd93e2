unnest(
    $1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[],
    $9::timestamptz[], $10::text[], $11::bigint[], $12::int[], $13::bigint[], $14::int[], $15::text[],
    $16::bigint[], $17::jsonb[], $18::jsonb[], $19::jsonb[]
) AS new (
    execution_id, step_run_id, iteration, step, status, pool, scheduled_at, started_at, finished_at, worker,
    epoch_ns, epoch_try, n, claims, task, task_n, result, result_ref, error
)
