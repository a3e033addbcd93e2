-- The variables of executions under the name that FX §8.2 and FS §11.2 have for them.

CREATE VIEW noetl.transient AS SELECT execution_id, key AS name, value, updated_seq FROM noetl.ctx;
