    status = EXCLUDED.status,
    started_at = COALESCE(old.started_at, EXCLUDED.started_at),
    finished_at = COALESCE(old.finished_at, EXCLUDED.finished_at),
    worker = EXCLUDED.worker,
    epoch_ns = EXCLUDED.epoch_ns,
    epoch_try = EXCLUDED.epoch_try,
    n = EXCLUDED.n,
    claims = EXCLUDED.claims,
    task = EXCLUDED.task,
    task_n = EXCLUDED.task_n,
    result = COALESCE(old.result, EXCLUDED.result),
    result_ref = COALESCE(old.result_ref, EXCLUDED.result_ref),
    error = COALESCE(old.error, EXCLUDED.error)
-- The epoch fences: a row a later lease has touched is not changed by an earlier one.
WHERE (old.epoch_ns, old.epoch_try) <= (EXCLUDED.epoch_ns, EXCLUDED.epoch_try)
