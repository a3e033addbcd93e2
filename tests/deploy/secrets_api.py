"""Secrets of one namespace as the Kubernetes API keeps them, and the chart's script that writes them."""

import base64
import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.deploy.helm import CHART

SCRIPT = CHART / "files/keys.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("keys_of_the_chart", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Api:
    """Secrets of one namespace, with versions; `meanwhile` is called before a change is looked at."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []
        self.tokens: set[str] = set()
        self.meanwhile: list[Any] = []
        self._version = 0

    def put(self, name: str, secret: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        secret["metadata"]["resourceVersion"] = str(self._version)
        self.secrets[name] = secret
        self.written.append(name)
        return secret

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        base, _, name = path.removeprefix("/api/v1/namespaces/apps/").partition("/")
        assert base == "secrets"
        if method != "GET" and self.meanwhile:
            self.meanwhile.pop()()
        old = self.secrets.get(name or (body or {}).get("metadata", {}).get("name", ""))
        match method:
            case "GET":
                return (200, old) if old else (404, {})
            case "POST":
                return (409, {}) if old else (201, self.put(body["metadata"]["name"], body))
            case "PUT" if old is None:
                return 404, {}
            case "PUT" if body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                return 409, {}
            case "PUT":
                return 200, self.put(name, body)
        raise AssertionError(f"the account may not {method}")

    def files(self, name: str) -> dict[str, bytes]:
        return {file: base64.b64decode(text) for file, text in self.secrets[name]["data"].items()}


@contextmanager
def served(api: Api, account: Path) -> Iterator[str]:
    """Its address, while it answers; `account` is made a folder as a Pod has one of its account."""

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            api.tokens.add(self.headers["Authorization"])
            status, said = api.answer(self.command, self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

        def log_message(self, *_: Any) -> None:
            """Not to the terminal."""

    (account / "namespace").write_text("apps")
    (account / "token").write_text("a-token\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
