"""What can go wrong with PostgreSQL, in one table: what passes by itself, what the client got wrong, what the values
are to blame for. Everything else is ours or the operator's (a password, a privilege, a table) and ends the service."""

import asyncpg

# PostgreSQL is away, restarting, overloaded, full or read-only: it will be back. The number is the SQLSTATE class.
PASSING = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,            # 08
    asyncpg.ReadOnlySQLTransactionError,        # 25006: a replica, or switched so
    asyncpg.TransactionRollbackError,           # 40
    asyncpg.InsufficientResourcesError,         # 53: disk, memory, connections
    asyncpg.ObjectNotInPrerequisiteStateError,  # 55: locks, recovery
    asyncpg.OperatorInterventionError,          # 57
    asyncpg.PostgresSystemError,                # 58: input and output
)  # fmt: skip

# The client's own complaints. A statement or rollback on a connection that is just breaking looks like
# a misuse of the client, so these are tried again on a new connection, a few times.
CONFUSED = (asyncpg.InterfaceError, asyncpg.InternalClientError)

# The database refuses the values, and would refuse them for ever.
REFUSED = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)

_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.ReadOnlySQLTransactionError, "PostgreSQL is read-only (a replica, or default_transaction_read_only)"),
    (asyncpg.DiskFullError, "PostgreSQL's disk is full"),
    (asyncpg.TooManyConnectionsError, "PostgreSQL has no connection left"),
    (asyncpg.CannotConnectNowError, "PostgreSQL is starting or in recovery"),
    (asyncpg.AdminShutdownError, "PostgreSQL is shutting down"),
    (asyncpg.CrashShutdownError, "PostgreSQL is restarting after a crash"),
    (OSError, "no answer from PostgreSQL"),  # a TimeoutError is one
)


def reason(error: BaseException) -> str:
    """For people: what is the matter, and PostgreSQL's own words."""
    own = str(error) or type(error).__name__
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "PostgreSQL cannot go on")
    return f"{words}: {own}"
