-- One row for all records of an execution that a batch of the projector has, instead of one per record (ADR 56). The model
-- is emptied here, and the projector writes it again from the log.

TRUNCATE noetl.cursor, noetl.execution, noetl.record, noetl.repeated, noetl.step_run, noetl.loop, noetl.iteration,
    noetl.task_run, noetl.ctx, noetl.corrupt, noetl.purged;
DROP VIEW noetl.event, noetl.recorded_event;
DROP TABLE noetl.record;

-- `records` is JSON: of each record its sequence, its time, and itself as the log has it. It is text since PostgreSQL need
-- not understand it until somebody reads it: what the projector writes can always be read as jsonb. As text it is
-- compressed as a whole, which it is as soon as it is worth it.
CREATE TABLE noetl.record_group (
    seq           bigint NOT NULL,       -- of the first one
    ts            timestamptz NOT NULL,
    partition     int NOT NULL,
    execution_id  text NOT NULL,
    records       text NOT NULL,
    -- FX §9.3: persistence is idempotent. An execution is in one partition, where a sequence is projected once.
    PRIMARY KEY (execution_id, seq)
);

-- The records, one by one. NULL: the record has none.
CREATE VIEW noetl.record AS
SELECT
    (e.value ->> 0)::bigint AS seq,
    r.n,
    (e.value ->> 1)::timestamptz AS ts,
    r.as_of,
    (r.lease -> 'epoch' ->> 0)::bigint AS epoch_ns,
    (r.lease -> 'epoch' ->> 1)::int AS epoch_try,
    CASE WHEN r.lease IS NOT NULL THEN coalesce((r.lease ->> 'index')::int, -1) END AS lease_index,
    g.partition,
    g.execution_id,
    r.writer,
    r.lease ->> 'run_id' AS step_run_id,
    r.source,
    r.events
FROM noetl.record_group g
CROSS JOIN LATERAL jsonb_array_elements(g.records::jsonb) AS e
CROSS JOIN LATERAL jsonb_to_record(e.value -> 2)
    AS r (n bigint, as_of bigint, writer text, source text, lease jsonb, events jsonb);

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
