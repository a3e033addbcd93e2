"""Every figure that any service tells. The table of docs/operations.md is made to agree with this one."""

from shared.runtime.service.exposition import LEFT_OUT
from shared.runtime.service.metrics import Metric

# Of every service.
INFO = Metric("noetl_service_info", "gauge", "1; who this is", ("name", "pool", "version"))
READY = Metric("noetl_ready", "gauge", "Whether the service says that it can work, as /readyz does")
CONNECTED = Metric("noetl_broker_connected", "gauge", "Whether there is a connection to the broker")
CONNECTIONS = Metric("noetl_broker_connection_changes_total", "counter", "How often the connection broke or came back")
SKEW = Metric("noetl_clock_skew_seconds", "gauge", "By how much the clock of this machine is ahead of the broker's")
LETTERS = Metric("noetl_dead_letters_total", "counter", "Dead letters it has written: what nobody could use")
HTTP = Metric("noetl_http_requests_total", "counter", "Requests to the health endpoint", ("path", "status"))
HTTP_SECONDS = Metric("noetl_http_request_seconds", "histogram", "How long they took to be answered", ("path",))

# Of router and scheduler, which decide.
RECORDS_READ = Metric("noetl_records_read_total", "counter", "Records taken from the log")
RECORDS_WRITTEN = Metric("noetl_records_written_total", "counter", "Decisions that the log has taken")
CONFLICTS = Metric("noetl_conflicts_total", "counter", "Decisions that the log refused: another was first")
DECIDE = Metric("noetl_decide_seconds", "histogram", "A turn of an execution: fold what is new, decide")
SET_ASIDE = Metric("noetl_executions_set_aside_total", "counter", "Executions that the service could not continue")
LIVE = Metric("noetl_executions_in_memory", "gauge", "Executions that are in memory", ("partition",))
OPEN = Metric("noetl_records_open", "gauge", "Sequences from the first record that is not handled on", ("partition",))
LAG = Metric("noetl_lag_records", "gauge", "Records of the log that are not handled, by the broker", ("partition",))
LAG_SECONDS = Metric("noetl_lag_seconds", "gauge", "How long the first of them has been in the log", ("partition",))
STAGE = Metric(
    "noetl_stage_seconds", "histogram",
    "read: a record, until a service takes it; queue: a command, until a worker takes it; write: a batch of the read "
    "model", ("stage",))

# Of the router.
STARTED = Metric("noetl_executions_started_total", "counter", "Executions that were begun")
REQUESTS = Metric("noetl_requests_total", "counter", "Requests that were taken from their queue")
REQUESTS_PENDING = Metric("noetl_requests_pending", "gauge", "Requests that wait, with those that were put off")
STORE_USED = Metric("noetl_store_used_bytes", "gauge", "Bytes in the files of the broker's account")
STORE_LIMIT = Metric("noetl_store_limit_bytes", "gauge", "How many there may be; not told where there is no limit")

# Of the scheduler.
ENDED = Metric("noetl_executions_ended_total", "counter", "Executions whose end was told", ("status",))
RELEASED = Metric("noetl_commands_total", "counter", "Commands that went to the queue in their turn", ("pool",))
HELD = Metric("noetl_commands_held", "gauge", "Commands held back until the workers have room", ("pool",))
HELD_SECONDS = Metric("noetl_commands_held_oldest_seconds", "gauge", "How long the first of them was held", ("pool",))
UNDER_WAY = Metric("noetl_commands_under_way", "gauge", "Commands in the queue or with a worker", ("pool",))
REFUSED = Metric("noetl_commands_refused_total", "counter", "Commands that the broker would not take")
TAKEOVERS = Metric("noetl_takeovers_total", "counter", "Workers that were gone with runs in their hands")
REISSUED = Metric("noetl_commands_reissued_total", "counter", "Commands issued again: their worker or message was lost")
QUEUE_LOST = Metric("noetl_queue_losses_total", "counter", "How often the queue of commands was lost as a whole")

# Of a worker.
SLOTS = Metric("noetl_slots", "gauge", "Runs that it can hold at a time", ("pool",))
SLOTS_TAKEN = Metric("noetl_slots_taken", "gauge", "Runs that it holds", ("pool",))
CALLS = Metric("noetl_calls_running", "gauge", "Calls of tools under way, or in line for their turn", ("pool",))
TAKEN = Metric("noetl_commands_taken_total", "counter", "Commands that it was given", ("pool",))
REDELIVERIES = Metric("noetl_redeliveries_total", "counter", "Those that somebody had been given before", ("pool",))
FENCED = Metric("noetl_leases_lost_total", "counter", "Runs that another worker has now", ("pool",))
HANDED_BACK = Metric("noetl_runs_handed_back_total", "counter", "Runs given back for another to continue", ("pool",))
CRASHED = Metric("noetl_run_crashes_total", "counter", "Runs that met an error of the worker itself", ("pool",))
ABSENCES = Metric("noetl_absences_total", "counter", "How often it was frozen or cut off for too long", ("pool",))
TASK = Metric("noetl_task_seconds", "histogram", "Calls of tools that have effects", ("pool", "kind"))
TASK_FAILED = Metric("noetl_task_errors_total", "counter", "Those that failed, or took too long", ("pool", "kind"))

# Of the projector.
PROJECTED = Metric("noetl_projector_records_total", "counter", "Records written to the read model")
PROJECTOR_LAG = Metric("noetl_projector_lag_records", "gauge", "Records that are not in the read model", ("partition",))
PROJECTOR_LAG_SECONDS = Metric(
    "noetl_projector_lag_seconds", "gauge", "How long the first of them has been in the log", ("partition",))

RETENTION_REMOVED = Metric(
    "noetl_retention_removed_total", "counter", "Removed because it was old: messages of results, rows", ("kind",))
RETENTION_KEPT = Metric(
    "noetl_retention_kept", "gauge", "Executions old enough that somebody related keeps, in the last pass", ("kind",))
RETENTION_PASSED = Metric(
    "noetl_retention_passed_timestamp_seconds", "gauge", "When the last pass came to its end", ("kind",))

# Of the pools service that leads, about each pool.
LEADS = Metric("noetl_pools_leader", "gauge", "Whether it is the pools service that acts")
POOL_PENDING = Metric("noetl_pool_pending", "gauge", "Commands in the queue that no worker has", ("pool",))
POOL_OLDEST = Metric(
    "noetl_pool_oldest_pending_seconds", "gauge",
    "How long the first of them has been waiting at the least: since the queue moved", ("pool",))
POOL_IN_FLIGHT = Metric("noetl_pool_in_flight", "gauge", "Commands that workers have, or gave back", ("pool",))
POOL_DEMAND = Metric("noetl_pool_demand", "gauge", "What /demand says: held, pending and in flight", ("pool",))
POOL_WORKERS = Metric("noetl_pool_workers", "gauge", "Workers that say they are there", ("pool",))
POOL_WANTED = Metric("noetl_pool_workers_wanted", "gauge", "Workers there should be", ("pool",))
POOL_SLOTS = Metric("noetl_pool_slots", "gauge", "Runs that they can hold at a time", ("pool",))
POOL_TAKEN = Metric("noetl_pool_slots_taken", "gauge", "Runs that they hold", ("pool",))
POOL_CRASHES = Metric("noetl_pool_crashes", "gauge", "Workers that ended by themselves within 5 minutes", ("pool",))
POOL_STATE = Metric("noetl_pool_state", "gauge", "1 for the state that it is in", ("pool", "state"))

METRICS: dict[str, Metric] = {each.name: each for each in (
    LEFT_OUT, *(value for value in list(globals().values()) if isinstance(value, Metric) and value is not LEFT_OUT)
)}
