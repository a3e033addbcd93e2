UPDATE noetl.step_run AS old SET
    step = new.step,
    pool = new.pool,
    scheduled_at = COALESCE(old.scheduled_at, new.scheduled_at),
{run_changes}
FROM {run_rows}
WHERE old.execution_id = new.execution_id AND old.step_run_id = new.step_run_id
{run_fence}
