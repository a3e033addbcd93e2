-- The executions whose details were removed (`noetlctl admin purge`), and when; the log still has them.

CREATE TABLE noetl.purged (
    execution_id  text PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT now()
);
