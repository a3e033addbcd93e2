"""Every error the engine raises on purpose, as one tree.

    NoetlError
    ├── Conflict       the broker refused an expected sequence: reload and decide again
    ├── Duplicate      a write-once subject already holds a message: it is there, continue
    ├── Refused        permissions or a stream setting forbid it: say so, do not retry
    ├── Unavailable    no answer from a dependency: try again with backoff
    │   └── Unknown    a publish got no answer and may have been applied: read back
    ├── Corrupt        bytes or a history that cannot be right: dead letter, visible
    │   └── Forged     it is where a worker may write: skipped by every reader, reported once
    └── TemplateError  an expression failed: becomes an error outcome of kind `template`
        └── OverLimit  it reached a bound or a budget: of kind `limit`

An author's mistake is a Diagnostic value and a tool's failure an Outcome value; neither is raised.
"""


class NoetlError(Exception):
    """Base of all errors the engine raises on purpose."""


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


class Forged(Corrupt):
    """A record where a worker may write that no worker of ours writes."""


class TemplateError(NoetlError):
    """An expression failed; the message names the expression. `kind` is that of the failure it becomes."""

    kind = "template"


class OverLimit(TemplateError):
    """A template reached a bound or its budget."""

    kind = "limit"
