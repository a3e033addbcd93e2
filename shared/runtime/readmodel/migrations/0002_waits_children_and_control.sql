-- Tasks that wait without a worker, executions that other executions started, and what people ask of them.

ALTER TABLE noetl.execution DROP CONSTRAINT execution_status_check;
ALTER TABLE noetl.execution ADD CONSTRAINT execution_status_check
    CHECK (status IN ('running', 'paused', 'cancelling', 'compensating', 'completed', 'failed', 'cancelled'));
DROP INDEX noetl.execution_running;
CREATE INDEX execution_running ON noetl.execution (started_at DESC)
    WHERE status IN ('running', 'paused', 'cancelling', 'compensating');

ALTER TABLE noetl.execution ADD COLUMN parent_id text;
CREATE INDEX execution_parent ON noetl.execution (parent_id) WHERE parent_id IS NOT NULL;

ALTER TABLE noetl.step_run DROP CONSTRAINT step_run_status_check;
ALTER TABLE noetl.step_run ADD CONSTRAINT step_run_status_check
    CHECK (status IN ('scheduled', 'running', 'waiting', 'done', 'failed', 'cancelled'));
ALTER TABLE noetl.iteration DROP CONSTRAINT iteration_status_check;
ALTER TABLE noetl.iteration ADD CONSTRAINT iteration_status_check
    CHECK (status IN ('running', 'waiting', 'done', 'failed', 'cancelled'));

-- `waited`: the attempt went on without a worker; its end has a row of its own.
ALTER TABLE noetl.task_run DROP CONSTRAINT task_run_status_check;
ALTER TABLE noetl.task_run ADD CONSTRAINT task_run_status_check
    CHECK (status IN ('running', 'done', 'failed', 'retried', 'waited', 'lost'));

DROP INDEX noetl.step_run_live;
CREATE INDEX step_run_live ON noetl.step_run (step, status) WHERE status IN ('scheduled', 'running', 'waiting');
