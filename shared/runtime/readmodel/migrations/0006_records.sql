-- One row per record instead of one per event (ADR 40). The model is emptied here, and the projector writes it again from
-- the log.

TRUNCATE noetl.cursor, noetl.execution, noetl.step_run, noetl.loop, noetl.iteration, noetl.task_run, noetl.ctx,
    noetl.corrupt, noetl.purged;
DROP TABLE noetl.event;

-- What the log holds, in its order. Wide columns first: no room is lost between them. NULL: the record has none.
CREATE TABLE noetl.record (
    seq           bigint NOT NULL,
    n             bigint NOT NULL,       -- the number of its first event
    ts            timestamptz NOT NULL,
    as_of         bigint,
    epoch_ns      bigint,                -- the lease: its epoch, what it holds (-1: the run, below that a claim of rows)
    epoch_try     int,
    lease_index   int,
    partition     int NOT NULL,
    execution_id  text NOT NULL,
    writer        text NOT NULL,
    step_run_id   text,                  -- of the lease
    source        text,
    events        jsonb NOT NULL,
    -- FX §9.3: persistence is idempotent on this pair. An execution is in one partition, where a sequence is one record's.
    PRIMARY KEY (execution_id, seq)
);

-- Entity and status by the type of an event, written from the code at every start (`event_types.py`). The status is
-- another one when the event has a value of `statuses` at `path`; '*' is any that is no string.
CREATE TABLE noetl.event_type (
    event_type   text PRIMARY KEY,
    entity_type  text NOT NULL,
    status       text NOT NULL,
    path         text[],
    statuses     jsonb
);

-- Executions in which an event may be recorded more than once: the view has to look.
CREATE TABLE noetl.repeated (
    execution_id  text PRIMARY KEY
);

-- What it takes to see that: the last numbers of those who count by execution, and the records from outside.
ALTER TABLE noetl.execution
    ADD COLUMN trace_id text NOT NULL,
    ADD COLUMN router_n bigint NOT NULL,
    ADD COLUMN scheduler_n bigint NOT NULL,
    ADD COLUMN controls bigint NOT NULL;

-- Every event of every record, also the second time; `place` is its place in the record.
CREATE VIEW noetl.recorded_event AS
SELECT
    r.execution_id,
    CASE
        WHEN r.step_run_id IS NULL THEN r.writer || '-' || coalesce(r.source, (r.n + e.place - 1)::text)
        ELSE h.held || '-' || r.epoch_ns || '.' || r.epoch_try || '-' || (r.n + e.place - 1)
    END AS event_id,
    e.event ->> 'event_type' AS event_type,
    r.ts,
    r.n + e.place - 1 AS n,
    CASE WHEN r.step_run_id IS NULL THEN 'server' ELSE 'worker' END AS source,
    t.entity_type,
    coalesce(h.held || '/' || i.task, i.run_id, r.execution_id) AS entity_id,
    coalesce(t.statuses ->> i.variant, t.status) AS status,
    i.run_id AS step_run_id,
    h.held || '/' || i.task AS task_run_id,
    x.trace_id,
    coalesce(r.step_run_id, r.as_of::text) AS parent_id,
    r.partition,
    r.seq,
    e.event - 'event_type' AS payload,
    e.place
FROM noetl.record r
CROSS JOIN LATERAL (
    SELECT r.step_run_id || CASE
        WHEN r.lease_index >= 0 THEN '.' || r.lease_index
        WHEN r.lease_index < -1 THEN '.f' || (-2 - r.lease_index)
        ELSE ''
    END AS held
) AS h
CROSS JOIN LATERAL jsonb_array_elements(r.events) WITH ORDINALITY AS e (event, place)
LEFT JOIN noetl.event_type t ON t.event_type = e.event ->> 'event_type'
LEFT JOIN noetl.execution x ON x.execution_id = r.execution_id
CROSS JOIN LATERAL (
    SELECT
        coalesce(r.step_run_id, nullif(e.event ->> 'run_id', '')) AS run_id,
        nullif(e.event ->> 'task', '') || '/' || coalesce(e.event ->> 'attempt', '1') AS task,
        CASE
            WHEN e.event #> t.path IS NULL OR e.event #> t.path = '{}' THEN NULL
            WHEN jsonb_typeof(e.event #> t.path) = 'string' THEN e.event #>> t.path
            ELSE '*'
        END AS variant
) AS i;

-- The events with the envelope of FX §9.1, FS §12.1 and DSL2 §9.3, each once: the first one recorded.
CREATE VIEW noetl.event AS
SELECT
    execution_id, event_id, event_type, ts, n, source, entity_type, entity_id, status,
    step_run_id, task_run_id, trace_id, parent_id, partition, seq, payload
FROM noetl.recorded_event AS every
WHERE NOT EXISTS (SELECT FROM noetl.repeated WHERE repeated.execution_id = every.execution_id)
UNION ALL
SELECT
    execution_id, event_id, event_type, ts, n, source, entity_type, entity_id, status,
    step_run_id, task_run_id, trace_id, parent_id, partition, seq, payload
FROM (
    SELECT DISTINCT ON (execution_id, event_id) every.*
    FROM noetl.recorded_event AS every JOIN noetl.repeated USING (execution_id)
    ORDER BY execution_id, event_id, seq, place
) AS first;
