-- oldest: 8, filled from the log
-- What an execution was made from, so that families are found without reading records; and the old ones, in their order.

ALTER TABLE noetl.execution ADD COLUMN rerun_of text;
CREATE INDEX execution_rerun_of ON noetl.execution (rerun_of) WHERE rerun_of IS NOT NULL;
CREATE INDEX execution_finished ON noetl.execution (finished_at, execution_id) WHERE finished_at IS NOT NULL;
