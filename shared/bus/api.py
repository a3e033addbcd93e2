"""The JetStream API, spelled once. A question is what comes after `$JS.API.`, as `Requests.api` expects it;
`subject` is where it is published. Names may be wildcards: permissions are said in the same words."""

INFO = "INFO"
STREAM_NAMES = "STREAM.NAMES"
PREFIX = "$JS.API."
EVERYTHING = "$JS.>"  # also acknowledgements
_ACKS = "$JS.ACK"
_CHANGE_NOTHING = ("INFO", "STREAM.INFO.", "STREAM.NAMES", "STREAM.LIST", "STREAM.MSG.GET.", "DIRECT.GET.",
                   "CONSUMER.INFO.", "CONSUMER.NAMES.", "CONSUMER.LIST.")
_READS = tuple(f"{PREFIX}{question}" for question in _CHANGE_NOTHING)


def subject(question: str) -> str:
    return f"{PREFIX}{question}"


def changes_nothing(asked: str) -> bool:
    """A subject on which asking twice is as good as once."""
    return asked.startswith(_READS)


def acks(*place: str) -> str:
    """Where deliveries are acknowledged: those of a stream, or of one of its consumers."""
    return ".".join((_ACKS, *place, ">"))


def stream_info(stream: str) -> str:
    return f"STREAM.INFO.{stream}"


def stream_create(stream: str) -> str:
    return f"STREAM.CREATE.{stream}"


def stream_update(stream: str) -> str:
    return f"STREAM.UPDATE.{stream}"


def stream_delete(stream: str) -> str:
    return f"STREAM.DELETE.{stream}"


def stream_purge(stream: str) -> str:
    return f"STREAM.PURGE.{stream}"


def stream_snapshot(stream: str) -> str:
    return f"STREAM.SNAPSHOT.{stream}"


def stream_restore(stream: str) -> str:
    return f"STREAM.RESTORE.{stream}"


def message_get(stream: str) -> str:
    """Answered by the stream's leader."""
    return f"STREAM.MSG.GET.{stream}"


def message_delete(stream: str) -> str:
    return f"STREAM.MSG.DELETE.{stream}"


def direct_get(stream: str, of: str = "") -> str:
    """Answered by any replica; `of` asks for the last message of that subject."""
    return f"DIRECT.GET.{stream}{'.' if of else ''}{of}"


def consumer_create(stream: str, consumer: str, of: str = "") -> str:
    """`of` is the subject it is to have, so that a permission can say which."""
    return f"CONSUMER.CREATE.{stream}.{consumer}{'.' if of else ''}{of}"


def consumer_info(stream: str, consumer: str) -> str:
    return f"CONSUMER.INFO.{stream}.{consumer}"


def consumer_delete(stream: str, consumer: str) -> str:
    return f"CONSUMER.DELETE.{stream}.{consumer}"


def consumer_pause(stream: str, consumer: str) -> str:
    return f"CONSUMER.PAUSE.{stream}.{consumer}"


def consumer_names(stream: str) -> str:
    return f"CONSUMER.NAMES.{stream}"


def consumer_list(stream: str) -> str:
    return f"CONSUMER.LIST.{stream}"


def next_message(stream: str, consumer: str) -> str:
    return f"CONSUMER.MSG.NEXT.{stream}.{consumer}"
