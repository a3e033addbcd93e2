UPDATE noetl.iteration AS old SET
{run_changes}
FROM {run_rows}
WHERE old.execution_id = new.execution_id AND old.step_run_id = new.step_run_id AND old.iteration = new.iteration
{run_fence}
