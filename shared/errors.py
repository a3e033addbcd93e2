"""Every exception that is raised on purpose, as two trees. Those that only one room knows live there.

    NoetlError                 something went wrong: reported, or turned into what is reported
    ├── Conflict               the broker refused an expected sequence: reload and decide again
    │   └── NotYours           the pool belongs to another, who would undo it
    ├── Duplicate              a write-once subject already holds a message: it is there, continue
    ├── Refused                permissions or a stream setting forbid it: say so, do not retry
    │   └── Occupied           other bytes stand under the key of a result
    ├── Unavailable            no answer from a dependency: try again with backoff
    │   ├── Unknown            a publish got no answer and may have been applied: read back
    │   ├── Nobody             no one took the message, so it is not stored
    │   ├── NotFound           the broker has no such stream, consumer or message
    │   │   └── NoMessage      the stream is there and has no such message
    │   └── ValueMissing       a stored value is not there
    ├── Corrupt                bytes or a history that cannot be right: dead letter, visible
    │   ├── Unreadable         a stored value is not what the log refers to, or gone for good: of kind `unreadable`
    │   ├── Forged             it stands where a worker may write: skipped by every reader, reported once
    │   └── BrokenHistory      a record that does not follow, for `why`
    ├── TemplateError          an expression failed: becomes an error outcome of kind `template`
    │   └── OverLimit          it reached a bound or a budget: of kind `limit`
    ├── ToolError              a call cannot be made or did not succeed: its tool makes an error outcome of it
    │   ├── BadCall            it cannot be made as it is written: of kind `config`
    │   ├── TooLarge           what goes in or comes out is over a limit: of kind `limit`
    │   ├── CallFailed         it failed before it was made: of the kind that it says
    │   │   └── NoScript       the text of a script cannot be had
    │   ├── ApiError           Kubernetes refuses, or does not answer
    │   ├── RequestFailed      Google Cloud Storage refuses, or does not answer
    │   ├── NotAllowed         the NATS server does not let this user do it
    │   ├── Busy               no connection to PostgreSQL is free
    │   ├── WrongType          a parameter does not fit its type in PostgreSQL
    │   ├── EndFailed          one of the two ends of a transfer
    │   ├── Crashed            the process that runs Python code has died
    │   └── Lost               the process that keeps a shell script has died
    ├── NotThere               no schedule, trigger or pool has this name
    ├── NotRegistered          no playbook has this path, version or digest
    ├── VersionTaken           the version of a playbook is registered with other content
    ├── NoCredential           the keychain has no such name
    ├── NotStored              the same, of whoever wants to change or delete it
    ├── NoSuchKey              `explain` knows no such path
    ├── NoSuchRun              `debug` finds no such run at this record
    ├── BadName                not a name that a credential can have
    ├── BadSecret              where a secret should be is none that can be used
    ├── BadSettings            a variable NOETL_* that cannot be used
    ├── BadRetention           how long things are kept cannot be kept to
    ├── BadKey                 text that is not a key of NATS
    ├── BadLogin               a client cannot log in with what it has, or the broker offers less than it wants
    ├── BrokenMock             an answer in a test that cannot be evaluated
    ├── Unverifiable           what `verify` needs is gone, or for a newer version to read
    ├── WrongClock             the clock of this host is too far from the broker's
    ├── NameTaken              another live process has the name of this one
    ├── GaveUp                 a part of a service died too often in a row
    └── CliError               what `noetlctl` says before it exits, and the exit code
        ├── Unanswered         nobody has said what became of a request for an execution
        └── Away               the read model cannot be asked; the log can

    Signal                     nothing went wrong: it says to a caller of ours what to do next
    ├── Missing                a decision needs a stored value: bring it and decide again
    ├── PlanMissing            a decision needs a plan: load it and decide again
    ├── Unstorable             what a task left is too large for the log: end the run
    ├── Unusable               a loop cannot start with this: fail its step
    ├── Fenced                 the run is over or another lease's: let go of it
    ├── HandedBack             the worker leaves: hand the loop to another one
    ├── NoTurn                 no turn at a tool came in time
    ├── NoRoom                 hand the run back until there may be a turn
    ├── Later                  hand the run back for a while
    ├── Moved                  the cursor of the read model is elsewhere: follow again from there
    ├── Limit                  a template is over a bound: becomes OverLimit
    ├── BadPattern             a pattern in a JSON Schema is not taken
    ├── Misplaced              an output where a shell program can have none
    ├── OutOfRange             a number in YAML that JSON cannot hold
    ├── NetTooLarge            the token net has too many states to look at: not judged
    ├── Died                   the rehearsed worker is gone
    ├── WorkerFault            the rehearsed run ends by a fault of its worker
    ├── Gone                   the job on Kubernetes was deleted
    ├── Spent                  the Python process does not take another call: start a new one
    ├── ReaderGone             nobody reads any further what noetlctl prints
    ├── Stopped                nobody waits for the answer of Snowflake any more
    ├── _Parked                the run has left its worker
    ├── _Stop                  the YAML cannot be read further
    ├── _NoJob                 there is no such job on Kubernetes
    ├── _Away                  Kubernetes did not answer this time
    └── _NotJson               the result of Python code is not JSON

A handler of NoetlError lets every Signal pass. An author's mistake is a Diagnostic value and a tool's failure an
Outcome value; neither is raised beyond the room that makes it.
"""


class NoetlError(Exception):
    """Base of all errors the engine raises on purpose."""


class Signal(Exception):
    """Base of all that is raised to say what comes next. It is caught by name."""


class Conflict(NoetlError):
    """The last sequence of the subject is not the one the writer expected."""


class Duplicate(NoetlError):
    """The write-once subject already holds a message."""


class Refused(NoetlError):
    """The broker forbids the operation."""


class Unavailable(NoetlError):
    """A dependency did not answer; nothing is known to be lost."""


class Unknown(Unavailable):
    """A publish got no answer: it may or may not have been applied."""


class Corrupt(NoetlError):
    """Bytes or a history that cannot be right."""


class Unreadable(Corrupt):
    """A stored value that the log refers to can never be read."""

    kind = "unreadable"


class Forged(Corrupt):
    """A record where a worker may write that no worker of ours writes."""


class TemplateError(NoetlError):
    """An expression failed; the message names the expression. `kind` is that of the failure it becomes, `what` what
    went wrong, without the expression."""

    kind = "template"

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what or message


class OverLimit(TemplateError):
    """A template reached a bound or its budget."""

    kind = "limit"


class ToolError(NoetlError):
    """A call that cannot be made or did not succeed; none leaves its tool."""
