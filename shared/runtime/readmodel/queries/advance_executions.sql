UPDATE noetl.execution AS old SET
    updated_at = new.updated_at, seq = new.seq, router_n = new.router_n, scheduler_n = new.scheduler_n,
    controls = new.controls
FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS new (execution_id, updated_at, seq, router_n, scheduler_n, controls)
WHERE old.execution_id = new.execution_id
