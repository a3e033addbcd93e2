"""`kind: nats`: key-value buckets, object stores and messages on a NATS server of the author's own. Nothing
waits for messages: a request has its answer, and a message is read by its place."""

from msgspec.structs import replace

from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, TooLarge, guarded

NAMES = ("kv_get", "kv_put", "kv_delete", "kv_purge", "kv_keys", "object_get", "object_put", "object_delete",
          "publish", "request", "js_publish", "js_get_msg")
READING = frozenset({"kv_get", "js_get_msg"})  # others that read have the server make a consumer

SPEC = ToolSpec(
    kind="nats",
    doc="One operation on a NATS server. Result: {status, …}; a key that is not there has status not_found.",
    keys={
        "operation": KeySpec(f"One of {', '.join(NAMES)}.", required=True, choices=NAMES),
        "auth": KeySpec("Credential: {url} with {user, password} or {token}."),
        "url": KeySpec("Address of the server, instead of the credential's; several separated by commas."),
        "user": KeySpec("User, instead of the credential's."),
        "password": KeySpec("Password, instead of the credential's."),
        "token": KeySpec("Token, instead of the credential's."),
        "bucket": KeySpec("Key-value bucket or object store."),
        "key": KeySpec("Key in the bucket, or name of the object."),
        "value": KeySpec("What is put or sent: text as it is, anything else as JSON."),
        "data": KeySpec("The same as value."),
        "payload": KeySpec("The same as value."),
        "message": KeySpec("The same as value."),
        "encoding": KeySpec("How the content is read: text, json or base64. Unless given, mappings and lists in JSON "
                            "are values, the rest is text. base64 also says what value is.",
                            choices=("text", "json", "base64")),
        "ttl": KeySpec("kv_put: seconds until the key is gone; the bucket must allow it."),
        "pattern": KeySpec("kv_keys: which keys, such as session.*."),
        "subject": KeySpec("Subject of a message; js_get_msg gives the last one on it."),
        "headers": KeySpec("Mapping of message headers."),
        "stream": KeySpec("js_publish: the stream that must take it. js_get_msg: the stream to read."),
        "seq": KeySpec("js_get_msg: sequence of the message."),
    },
    reads=lambda config, _spec: config.get("operation") in READING,
)


class NatsTool:
    def __init__(self, _options: ToolOptions) -> None:
        import nats.errors
        import nats.js.errors

        from shared.tools.nats import links as nats_links
        from shared.tools.nats import operations as nats_ops

        self._errors, self._js_errors = nats.errors, nats.js.errors
        self._operations, self._refused = nats_ops.OPERATIONS, nats_ops.NotAllowed
        self._target, self._place, self._links = nats_links.target, nats_links.place, nats_links.Links()

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await self._links.close()

    async def _run(self, call: Call) -> Outcome:
        operation = self._operations.get(str(call.config.get("operation")))
        if operation is None:
            raise BadCall(f"operation must be one of {', '.join(self._operations)}")
        where = self._target(call)
        connected = False
        try:
            async with self._links.link(where, own=operation.own) as link:
                connected = True
                return ok(await link.during(operation.run(link, call)))
        except (BadCall, TooLarge):
            raise
        except self._refused as error:
            return failed("auth", str(error))
        except (self._errors.Error, OSError, TimeoutError, ValueError) as error:
            outcome = self._failure(error, call, connected)
            if connected or outcome.error is None:
                return outcome
            return replace(outcome, error={**outcome.error, "message": f"{self._place(where, call.auth_name)}: "
                                           f"{outcome.error['message']}"})

    def _failure(self, error: Exception, call: Call, connected: bool) -> Outcome:
        errors, js = self._errors, self._js_errors
        message = str(error).removeprefix("nats: ") or type(error).__name__
        match error:
            case errors.Error() if not connected and "Authorization" in message:
                return failed("auth", "the server does not take this credential")
            case js.BucketNotFoundError():
                return failed("nats", f"there is no bucket {str(call.config.get('bucket'))[:100]}")
            case js.InvalidBucketNameError() | errors.BadSubjectError() | errors.BadHeaderError() | ValueError():
                # its words are not repeated: an address may hold a password
                raise BadCall(f"an address, name, subject or header cannot be used ({type(error).__name__})") from None
            case errors.MaxPayloadError():
                raise TooLarge("the content is over what the server takes in one message") from None
            case errors.NoRespondersError() | js.NoStreamResponseError():
                return failed("nats", f"nobody answers on {call.config.get('subject')}", retryable=True)
            case js.APIError():
                details = {"code": error.err_code}
                return failed("nats", error.description or message, retryable=(error.code or 0) >= 500, details=details)
            case js.Error():
                return failed("nats", message)
            case TimeoutError() if connected:
                return failed("timeout", "the server did not answer in time", retryable=True)
            case _:
                return failed("connect", message, retryable=True)
