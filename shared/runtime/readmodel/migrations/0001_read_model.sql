-- The read model. Every row follows from the log; `seq` columns say from where in it.

CREATE TABLE noetl.cursor (
    partition  int PRIMARY KEY,
    seq        bigint NOT NULL
);

CREATE TABLE noetl.execution (
    execution_id  text PRIMARY KEY,
    partition     int NOT NULL,
    path          text NOT NULL,
    version       text NOT NULL,
    digest        text NOT NULL,
    status        text NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    updated_at    timestamptz NOT NULL,
    workload      jsonb,
    result        jsonb,
    result_ref    jsonb,
    error         jsonb,
    seq           bigint NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX execution_started ON noetl.execution (started_at DESC);
CREATE INDEX execution_path ON noetl.execution (path, started_at DESC);
CREATE INDEX execution_running ON noetl.execution (started_at DESC) WHERE status = 'running';

CREATE TABLE noetl.event (
    execution_id  text NOT NULL,
    event_id      text NOT NULL,
    event_type    text NOT NULL,
    ts            timestamptz NOT NULL,
    n             bigint NOT NULL,
    source        text NOT NULL,
    entity_type   text NOT NULL,
    entity_id     text NOT NULL,
    status        text NOT NULL,
    step_run_id   text,
    task_run_id   text,
    trace_id      text NOT NULL,
    parent_id     text,
    partition     int NOT NULL,
    seq           bigint NOT NULL,
    payload       jsonb NOT NULL,
    PRIMARY KEY (execution_id, event_id)  -- FX §9.3: persistence is idempotent on this pair
);

CREATE TABLE noetl.step_run (
    execution_id  text NOT NULL,
    step_run_id   text NOT NULL,
    step          text NOT NULL,
    status        text NOT NULL CHECK (status IN ('scheduled', 'running', 'done', 'failed', 'cancelled')),
    pool          text NOT NULL,
    scheduled_at  timestamptz,
    started_at    timestamptz,
    finished_at   timestamptz,
    worker        text NOT NULL,
    epoch_ns      bigint NOT NULL,  -- the lease epoch: when its command was queued ...
    epoch_try     int NOT NULL,     -- ... and how often it had been delivered
    n             bigint NOT NULL,  -- the last event of that lease
    claims        int NOT NULL,     -- leases so far: over 1, a worker was lost
    task          text NOT NULL,    -- what runs now ...
    task_n        bigint NOT NULL,  -- ... and the event that started it
    result        jsonb,
    result_ref    jsonb,
    error         jsonb,
    PRIMARY KEY (execution_id, step_run_id)
) WITH (fillfactor = 80);

CREATE INDEX step_run_live ON noetl.step_run (step, status) WHERE status IN ('scheduled', 'running');

CREATE TABLE noetl.loop (
    execution_id   text NOT NULL,
    step_run_id    text NOT NULL,
    step           text NOT NULL,
    status         text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
    count          int NOT NULL,
    max_in_flight  int NOT NULL,
    started        int NOT NULL,
    done           int NOT NULL,
    failed         int NOT NULL,
    started_at     timestamptz,
    finished_at    timestamptz,
    PRIMARY KEY (execution_id, step_run_id)
) WITH (fillfactor = 80);

-- One row per iteration a worker has reported on; `loop.started` counts those handed out.
CREATE TABLE noetl.iteration (
    execution_id  text NOT NULL,
    step_run_id   text NOT NULL,
    iteration     int NOT NULL,
    status        text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
    started_at    timestamptz,
    finished_at   timestamptz,
    worker        text NOT NULL,
    epoch_ns      bigint NOT NULL,
    epoch_try     int NOT NULL,
    n             bigint NOT NULL,
    claims        int NOT NULL,
    task          text NOT NULL,
    task_n        bigint NOT NULL,
    result        jsonb,
    result_ref    jsonb,
    error         jsonb,
    PRIMARY KEY (execution_id, step_run_id, iteration)
) WITH (fillfactor = 80);

-- One row per attempt. A pipeline may come back to a task, so the key is the lease and the number
-- of the event that began the attempt.
CREATE TABLE noetl.task_run (
    execution_id  text NOT NULL,
    step_run_id   text NOT NULL,
    iteration     int NOT NULL,     -- -1: not in a loop
    epoch_ns      bigint NOT NULL,
    epoch_try     int NOT NULL,
    n             bigint NOT NULL,
    task_run_id   text NOT NULL,    -- as in event.task_run_id
    task          text NOT NULL,
    attempt       int NOT NULL,
    status        text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'retried', 'lost')),
    directive     text NOT NULL,    -- continue, retry, jump, break, fail
    target        text NOT NULL,
    delay_s       double precision NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz,
    error         jsonb,
    PRIMARY KEY (execution_id, step_run_id, iteration, epoch_ns, epoch_try, n)
) WITH (fillfactor = 80);

CREATE TABLE noetl.ctx (
    execution_id  text NOT NULL,
    key           text NOT NULL,
    value         jsonb NOT NULL,
    updated_seq   bigint NOT NULL,
    PRIMARY KEY (execution_id, key)
);

-- What could not be read or stored: kept, so that it is seen.
CREATE TABLE noetl.corrupt (
    partition  int NOT NULL,
    seq        bigint NOT NULL,
    subject    text NOT NULL,
    data       bytea NOT NULL,
    error      text NOT NULL,
    PRIMARY KEY (partition, seq)
);
