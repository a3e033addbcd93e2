"""Twenty secrets go through every kind of tool, and come back in results, errors, output, headers, redirects and what
was said before a timeout. Afterwards none of them, in any spelling, is in a stream, a bucket, a stored result, a table,
a log, a command line or the environment of a service."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import asyncpg
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from services.cli.executions import requests
from services.cli.executions.readmodel import Watch
from services.cli.executions.records import history
from services.cli.stack import context
from shared.answers.history.summary import Summary
from shared.bus.jetstream import JetStreamBus
from shared.bus.kv import stream_of
from shared.bus.topology import KEYCHAIN
from shared.dsl.compile import compile_playbook
from shared.errors import NoetlError
from shared.events import model as ev
from shared.events.request import Request
from shared.runtime.stores import catalog, credentials
from shared.tools.registry import specs
from tests.support.cli import Up
from tests.support.playbooks import head
from tests.support.servers.kube import NAMESPACE, Container, Ended, Kube
from tests.support.servers.postgres import fresh_database, running_postgres
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 20
# Every third one is spelled differently in JSON, URLs and base64.
CANARIES = [f"canary{n:02d}" + ("-K7f9Xq2Wz" if n % 3 else '/é+"~ =&x') + f"{n * 7919:06d}" for n in range(COUNT)]
LARGE = 200_000  # bytes beside a secret: stored beside the log
ENDS_S = 240.0


def spellings(secret: str) -> set[str]:
    data = secret.encode()
    cores = {base64.b64encode(b"\0" * n + data).decode()[-(-n * 8 // 6) : (n + len(data)) * 8 // 6] for n in range(3)}
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe=""),
            quote(secret), *cores, *(core.replace("+", "-").replace("/", "_") for core in cores)}


EVERY = {secret: [each.encode() for each in spellings(secret)] for secret in CANARIES}


def seen(data: bytes) -> list[str]:
    """Also where only some characters are escaped as in a URL."""
    texts = (data, unquote_to_bytes(data), unquote_to_bytes(data.replace(b"+", b" ")))
    return [secret for secret, forms in EVERY.items() if any(form in text for form in forms for text in texts)]


class Echo:
    """A server that says whatever it was told: headers in the body and in headers, and tokens in redirects."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{how:[a-z]+}{rest:.*}", self._answer)
        self.server = TestServer(app, host="127.0.0.1")
        await self.server.start_server()
        self.url = str(self.server.make_url("")).rstrip("/")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        how = request.match_info["how"]
        self.asked.append(f"{request.path_qs} {dict(request.headers)}")
        token = request.headers.get("Authorization", "").partition(" ")[2] or request.headers.get("X-Key", "")
        token = token.encode("latin-1", "replace").decode()
        said = {"headers": dict(request.headers), "url": str(request.url), "body": (await request.read()).decode()}
        match how:
            case "redirect":
                raise web.HTTPFound(f"/echo?token={quote(token, safe='')}")
            case "away":
                raise web.HTTPFound(f"http://127.0.0.1:1/{quote(token, safe='')}")
            case "refuse":
                said |= {"error": {"message": f"no {token}"}}
                return web.json_response(said, status=403, headers={"X-Was": quote(token)})
            case "busy":
                return web.json_response(said, status=503)
            case "large":
                return web.json_response({"before": "x" * LARGE, **said})
            case "slow":
                answer = web.StreamResponse(headers={"X-Was": quote(token)})
                await answer.prepare(request)
                await answer.write(token.encode())
                await asyncio.sleep(30)
                return answer
        return web.json_response(said, headers={"X-Was": quote(token), "Set-Cookie": f"k={quote(token)}"})


PRINTS = "import sys; print(t); print(t, file=sys.stderr)"
SPELLS = ("import base64, json, urllib.parse; "
          "result = [base64.b64encode(('u:' + t).encode()).decode(), json.dumps(t), urllib.parse.quote(t), {t: t}]")
K = "{{{{ keychain.k{n}.token }}}}"


def _python(code: str, n: int, more: str = "") -> str:
    return f"{{kind: python, args: {{t: \"{K.format(n=n)}\"}}, code: {json.dumps(code)}{more}}}"


def _http(how: str, n: int, more: str = "") -> str:
    key = f"{{{{ keychain.k{n}.token | b64encode }}}}"
    return f'{{kind: http, url: "{{{{ url }}}}/{how}", headers: {{X-Key: "{key}"}}{more}}}'


def _tools() -> dict[str, str]:
    """By step. `!` at the end of its name: it fails."""
    key = [K.format(n=n) for n in range(COUNT)]
    auth = ", auth: k"
    return {
        "http_bearer": f'{{kind: http, url: "{{{{ url }}}}/echo"{auth}1}}',
        "http_basic": '{kind: http, url: "{{ url }}/echo", auth: basic}',
        "http_headers": '{kind: http, url: "{{ url }}/echo", auth: headers}',
        "http_encoded": _http("echo", 0),
        "http_query": f'{{kind: http, url: "{{{{ url }}}}/echo", params: {{q: "{key[3]}"}}}}',
        "http_body": f'{{kind: http, method: POST, url: "{{{{ url }}}}/echo", json: {{deep: ["{key[3]}"]}}}}',
        "http_redirect": f'{{kind: http, url: "{{{{ url }}}}/redirect"{auth}4}}',
        "http_away!": f'{{kind: http, url: "{{{{ url }}}}/away"{auth}4}}',
        "http_refused!": f'{{kind: http, url: "{{{{ url }}}}/refuse"{auth}5}}',
        "http_retried!": f'{{kind: http, url: "{{{{ url }}}}/busy"{auth}5, spec: {{policy: {{rules: '
                         '[{when: "{{ outcome.status == \'error\' }}", then: {do: retry, attempts: 2}}]}}}',
        "http_slow!": f'{{kind: http, url: "{{{{ url }}}}/slow"{auth}7, spec: {{timeout: 1}}}}',
        "http_large": f'{{kind: http, url: "{{{{ url }}}}/large"{auth}7}}',
        "http_nowhere!": f'{{kind: http, url: "http://127.0.0.1:1/{key[8]}"}}',
        "python_result": _python("result = {'t': [t], t: 1}", 6),
        "python_spelled": _python(SPELLS, 6),
        "python_large": _python(f"result = 'x' * {LARGE} + t", 9),
        "python_prints": _python(PRINTS, 9),
        "python_raises!": _python(PRINTS + "; raise ValueError(t)", 10),
        "python_late!": _python(PRINTS + "; import time; time.sleep(20)", 10, ", spec: {timeout: 1}"),
        "python_auth": "{kind: python, auth: k11, code: \"result = dict(auth)\"}",
        "shell_says": f'{{kind: shell{auth}12, cmd: "echo {key[12]} $AUTH_TOKEN; echo $AUTH_TOKEN >&2"}}',
        "shell_fails!": f'{{kind: shell, cmd: "echo {key[13]} >&2; exit 3"}}',
        "shell_late!": f'{{kind: shell, cmd: "echo {key[13]}; sleep 20", spec: {{timeout: 1}}}}',
        "sql_selects": f'{{kind: postgres, auth: pg, query: "SELECT {key[14]}::text AS t, {key[15]}::text"}}',
        "sql_casts!": f'{{kind: postgres, auth: pg, query: "SELECT ({key[14]}::text)::date"}}',
        "sql_late!": f'{{kind: postgres, auth: pg, query: "SELECT pg_sleep(20), {key[15]}::text", '
                     "spec: {timeout: 1}}",
        "sql_refused!": '{kind: postgres, auth: wrong_pg, query: "SELECT 1"}',
        "duck_selects": f'{{kind: duckdb, query: "SELECT {key[16]}::VARCHAR AS t"}}',
        "duck_casts!": f'{{kind: duckdb, query: "SELECT CAST({key[16]}::VARCHAR AS DATE)"}}',
        "nats_nowhere!": f'{{kind: nats, operation: publish, auth: no_nats, subject: x, value: "{key[17]}", '
                         "spec: {timeout: 3}}",
        "gcs_refused!": '{kind: gcs, operation: get, uri: "gs://b/o", endpoint: "{{ url }}/refuse", auth: k17}',
        "transfer_refused!": f'{{kind: transfer, source: {{type: http, url: "{{{{ url }}}}/refuse/{key[1]}", '
                             'auth: k1}, target: {type: postgres, auth: pg, table: nosuch}}',
        "snowflake_refused!": '{kind: snowflake, auth: snow, query: "SELECT 1", spec: {timeout: 2}}',
        "container_says": f'{{kind: container, auth: cluster, env: {{TOKEN: "{key[18]}"}}, '
                          f'runtime: {{image: says, namespace: {NAMESPACE}, command: [run, "--key={key[18]}"]}}}}',
        "script_fails!": "{kind: script, auth: cluster, script: {uri: a.py, source: {type: inline, code: 'pass'}}, "
                         f'job: {{image: fails, namespace: {NAMESPACE}, env: {{TOKEN: "{key[18]}"}}}}}}',
        "artifact_misses!": f'{{kind: artifact, result_ref: {{a: 1}}, path: "{key[19]}"}}',
        "template_fails!": '{kind: python, args: {t: "{{ keychain.k19.token | fromjson }}"}, code: "result = 1"}',
        "auth_unknown!": f'{{kind: python, auth: "{key[19]}", code: "result = 1"}}',
    }


STEPS = _tools()
LOOPS = f"""
  - step: local
    loop: {{in: [1, 2], iterator: n, spec: {{policy: {{exec: local}}}}}}
    tool: {_python("result = [t]", 2)}
    next: {{arcs: [{{step: frames}}]}}
  - step: frames
    loop:
      cursor: {{kind: postgres, auth: pg, frame: 5,
               claim: "UPDATE jobs SET done = {{{{ claim.id }}}} WHERE done IS NULL
                       RETURNING id, {K.format(n=2)}::text AS t"}}
      iterator: row
    tool: {{kind: python, args: {{row: "{{{{ row }}}}"}}, code: "result = row"}}
    next: {{arcs: [{{step: end}}]}}
  - step: end
"""


def _book() -> str:
    names = [name.rstrip("!") for name in STEPS]
    after = dict(zip(names, [*names[1:], "local"], strict=True))
    steps = "".join(
        f"  - step: {'start' if index == 0 else name}\n    tool: {tool}\n    next: {{arcs: [{{step: {after[name]}, "
        "when: \"{{ event.name in ['step.done', 'step.failed'] }}\"}]}\n"
        for index, (name, tool) in enumerate(zip(names, STEPS.values(), strict=True)))
    declared = ", ".join(f"{{name: k{n}, kind: bearer}}" for n in range(COUNT))
    return f"{head('canaries', 'canaries')}keychain: [{declared}]\nworkload: {{url: ''}}\nworkflow:\n{steps}{LOOPS}"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    stack = Up(tmp_path_factory.mktemp("canaries"))
    try:
        stack.wait()
        yield stack
        stack.verify()
    finally:
        stack.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(up: Up) -> AsyncIterator[JetStreamBus]:
    async with context.connected(context.find(up.context_file, {})) as bus:
        yield bus


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echo() -> AsyncIterator[Echo]:
    server = Echo()
    await server.start()
    yield server
    await server.server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kube() -> AsyncIterator[Kube]:
    async def says(container: Container) -> Ended:
        return Ended(0, container.env["TOKEN"].encode())

    async def fails(container: Container) -> Ended:
        return Ended(7, container.env["TOKEN"].encode())

    one = Kube()
    one.images |= {"says": says, "fails": fails}
    await one.start()
    yield one
    await one.close()


async def store_all(bus: JetStreamBus, dsn: str, kube: Kube) -> None:
    for number, secret in enumerate(CANARIES):
        await credentials.store(bus, f"k{number}", {"type": "bearer", "token": secret})
    others: dict[str, dict[str, Any]] = {
        "basic": {"username": "somebody", "password": CANARIES[0]},
        "headers": {"headers": {"X-Api-Key": quote(CANARIES[1]), "Authorization": f"Bearer {CANARIES[2]}"}},
        "pg": {"dsn": dsn}, "cluster": kube.credential,
        "wrong_pg": {"dsn": dsn.replace("//", f"//nobody:{quote(CANARIES[3], safe='')}@", 1) if "@" not in dsn else
                     f"postgresql://nobody:{quote(CANARIES[3], safe='')}@{dsn.rpartition('@')[2]}"},
        "no_nats": {"url": "nats://127.0.0.1:1", "user": "me", "password": CANARIES[17]},
        "snow": {"account": f"{CANARIES[19]}.nowhere", "user": "me", "password": CANARIES[19]},
    }
    for name, value in others.items():
        await credentials.store(bus, name, value)


class Processes:
    """What every process of this machine shows of itself while a block runs: its command line; and of the services,
    their environment."""

    def __init__(self) -> None:
        self.shown: set[bytes] = set()

    async def watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(0.02)

    def _look(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (folder / "cmdline").read_bytes()
                self.shown.add(line)
                if b"services." in line and int(folder.name) != os.getpid():
                    self.shown.add((folder / "environ").read_bytes())


async def everything(up: Up, bus: JetStreamBus) -> dict[str, bytes]:
    """All that outlives an execution, but for the keychain itself."""
    names = (await bus.requests.api("STREAM.NAMES"))["streams"]
    found: dict[str, bytes] = {}
    for stream in names:
        if stream != stream_of(KEYCHAIN):
            info = await bus.requests.api(f"STREAM.INFO.{stream}")
            places = range(max(1, info["state"]["first_seq"]), info["state"]["last_seq"] + 1)
            found[stream] = b"\n".join([await _raw(bus, stream, seq) for seq in places])
    dsn = up.context["postgres_dsn"]
    connection = await asyncpg.connect(dsn)
    try:
        for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'"):
            rows = await connection.fetch(f"SELECT t::text FROM noetl.{table} AS t")
            found[f"table {table}"] = "\n".join(row[0] for row in rows).encode()
    finally:
        await connection.close()
    return found | files(up.folder)


def files(folder: Path) -> dict[str, bytes]:
    """Logs and whatever else the stack keeps, but the store of the broker, which has the keychain too, and the data of
    PostgreSQL, of which the tables are read."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()
            and "jetstream" not in file.parts
            and ("postgres" not in file.parts or "log" in (file.name, file.parent.name))}


async def _raw(bus: JetStreamBus, stream: str, seq: int) -> bytes:
    """Subject, headers and bytes of one message; nothing of one that is gone."""
    try:
        message = (await bus.requests.api(f"STREAM.MSG.GET.{stream}", {"seq": seq}))["message"]
    except NoetlError:
        return b""
    data = (base64.b64decode(message.get(part, "")) for part in ("hdrs", "data"))
    return b" ".join((message["subject"].encode(), *data))


async def test_no_secret_is_left_anywhere(up: Up, bus: JetStreamBus, echo: Echo, kube: Kube) -> None:
    source = _book().encode()
    compiled = compile_playbook(source, kinds=specs(), file="canaries.yaml")
    assert compiled.plan is not None, [str(found) for found in compiled.diagnostics]
    settings = context.find(up.context_file, {})
    with running_postgres() as server:
        dsn = await fresh_database(server)
        database = await asyncpg.connect(dsn)
        await database.execute("CREATE TABLE jobs (id int, done text); INSERT INTO jobs SELECT generate_series(1, 3)")
        await database.close()
        await store_all(bus, dsn, kube)
        await catalog.register(bus, source, compiled.plan)
        processes = Processes()
        watching = asyncio.create_task(processes.watch())
        try:
            request = Request("canaries", payload={"url": echo.url}, execution_id="canaries-1")
            await requests.start(bus, request, "_INBOX_admin.canaries", settings.partitions)
            summary = await until(lambda: _summary(bus, settings.partitions), "it ends", ENDS_S, every_s=0.2,
                                  so=lambda found: found.status in ("completed", "failed"))
        finally:
            watching.cancel()
            await asyncio.wait({watching})
    assert summary.status == "completed", summary.error
    records = await history(bus, "canaries-1", settings.partitions)
    failed = {event.task.removesuffix("_task") for record in records for event in record.events
              if isinstance(event, ev.TaskDone) and event.outcome.status == "error"}
    wanted = {name.rstrip("!") for name in STEPS if name.endswith("!")}
    assert failed == wanted
    read_model = Watch()
    await until(lambda: read_model.status_of(up.context["postgres_dsn"], "canaries-1"), "its end is in the read model",
                60, so=lambda status: status == "completed")
    await read_model.close()

    # They really were there: the server has heard them, and their places in the log are marked.
    assert {CANARIES.index(secret) for secret in seen("\n".join(echo.asked).encode())} >= {0, 1, 3, 4, 5, 7}
    stored = await everything(up, bus)
    assert len(stored) > 25
    log = b"".join(data for name, data in stored.items() if name.startswith("NOETL_EVENTS"))
    assert log.count(b"***") > len(STEPS)
    assert b"***" in stored["NOETL_RESULTS"]
    assert len(processes.shown) > 5
    stored |= {"processes": b"\n".join(processes.shown)}
    assert {name: found for name, data in stored.items() if (found := seen(data))} == {}


async def _summary(bus: JetStreamBus, partitions: int) -> Summary:
    summary = Summary("canaries-1")
    for record in await history(bus, "canaries-1", partitions):
        summary.apply(record)
    return summary
