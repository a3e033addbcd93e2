"""`executor.spec.policy.notify`: the playbook that is started when an execution has ended, so that someone hears of
it."""

from collections.abc import Mapping
from typing import Any, get_args

from shared.dsl.model.plan import Notify
from shared.dsl.read.known_names import read_templates
from shared.dsl.read.reader import Reader
from shared.dsl.source.nodes import Path
from shared.events.bounds import MAX_PATH, MAX_VERSION
from shared.events.fields import Ending

NAMES: dict[str, frozenset[str]] = {"end": frozenset()}
WHOLE: dict[str, Any] = {"end": "{{ end }}"}  # the payload unless there is one
ENDINGS: tuple[Ending, ...] = get_args(Ending)
_FIX = "write notify: {playbook: {path: …}}"


def read_notify(reader: Reader, policy: Mapping[str, Any], path: Path) -> Notify | None:
    if "notify" not in policy:
        return None
    at = (*path, "notify")
    found = reader.section(policy, "notify", path, ("playbook", "ends"))
    if not reader.required(found, "playbook", at, "notify", _FIX):
        return None
    playbook_at = (*at, "playbook")
    playbook = reader.section(found, "playbook", at, ("path", "version", "payload"))
    reader.required(playbook, "path", playbook_at, "the playbook to start", _FIX)
    texts = {
        key: reader.text(playbook[key], (*playbook_at, key), f"write {key}: '…'", most=most)
        for key, most in (("path", MAX_PATH), ("version", MAX_VERSION)) if key in playbook
    }
    payload = WHOLE
    if "payload" in playbook:
        payload = reader.mapping(playbook["payload"], (*playbook_at, "payload"), "write payload: {key: value}")
        read_templates(reader, payload, (*playbook_at, "payload"), NAMES)
    return Notify(texts.get("path", ""), texts.get("version", ""), payload, _ends(reader, found, at))


def _ends(reader: Reader, found: Mapping[str, Any], path: Path) -> tuple[Ending, ...]:
    at, given = (*path, "ends"), found.get("ends", ["failed"])
    listed = [given] if isinstance(given, str) else reader.listing(given, at, "write ends: [failed, cancelled]")
    if not listed:
        reader.value(at, "DSL204", "notify with no end tells nobody", "write ends: [failed], or leave notify out")
    chosen = [reader.choice(each, at if each is given else (*at, n), ENDINGS) for n, each in enumerate(listed)]
    return tuple(each for each in ENDINGS if each in chosen)
