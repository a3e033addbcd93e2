-- What executions are selected by. NULL: none.

ALTER TABLE noetl.execution ADD COLUMN labels jsonb;
CREATE INDEX execution_labels ON noetl.execution USING gin (labels jsonb_path_ops) WHERE labels IS NOT NULL;
