"""`kind: secrets`: a credential of the keychain, by a handle. The result says which one it is; the value is read by the
templates of calls, on the worker that makes them, and is in no record."""

from shared.events.failure import AUTH, CONFIG
from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import guarded, one_of

NAMES = ("secret_name", "secret", "key")
_UNUSED = "Changes nothing: the keychain alone is asked."

SPEC = ToolSpec(
    kind="secrets",
    doc="A handle of a stored credential. Result: the handle; in the keys of a later call {{ step }} is the value, "
        "{{ step.token }} a field.",
    keys={
        "secret_name": KeySpec("The name of the credential in the keychain.", credential=True, named=True),
        "secret": KeySpec("The same as secret_name.", credential=True, named=True),
        "key": KeySpec("The same as secret_name.", credential=True, named=True),
        "field": KeySpec("The field that is the value; unless given, the only one that is secret, or all of them."),
        "provider": KeySpec(_UNUSED),
        "project_id": KeySpec(_UNUSED),
        "version": KeySpec(_UNUSED),
    },
    one_of=NAMES,
    by_name="secret_name",
    reads=lambda _config, _spec: True,
)


class SecretsTool:
    def __init__(self, _options: ToolOptions) -> None:
        """Nothing to open: the worker has looked the credential up."""

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        """Nothing to release."""

    async def _run(self, call: Call) -> Outcome:
        given, field = one_of(call.config, *NAMES), call.config.get("field")
        if given is None or not isinstance(given[1], str):
            return failed(CONFIG, f"one of {', '.join(NAMES)} must name a credential")
        key, name = given
        if field is not None and str(field) not in call.credentials.get(key, {}):
            return failed(AUTH, f"the secret {name!r} has no field {str(field)[:60]!r}")
        return ok({"secret": name, **({"field": str(field)} if field is not None else {})}, shape="secret")
