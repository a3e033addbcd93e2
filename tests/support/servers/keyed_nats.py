"""A NATS server that includes the part of its configuration which a keyring makes, and its users: by their files, and
by the bare protocol."""

import base64
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.login.files import LoginFiles
from shared.bus.login.nkeys import read_seed
from shared.bus.permissions import Account
from shared.bus.subject import matches
from shared.events.subjects import inbox_prefix
from shared.runtime.broker_auth import documents, folder, operator, server_config
from shared.runtime.broker_auth.keyring import Keyring, user_key
from shared.runtime.embedded.nats_server import HOST, find_binary, free_port
from shared.runtime.service.settings import Settings

READY_S = 10.0
SOON_S = 5.0
CLOSED = "the connection is closed"
NOW = 1_790_000_000


def keyring(mode: str, place: Path, pools: tuple[str, ...] = ("default", "gpu"), partitions: int = 1) -> Keyring:
    wanted = msgspec.convert({"mode": mode, "pools": pools, "partitions": partitions}, Keyring)
    return documents.ready(replace(wanted, resolver=str(place / "resolver")), NOW)


def accounts_of(keys: Keyring) -> list[Account]:
    """As the server is told of them."""
    return operator.signed_accounts(keys) if keys.mode == "jwt" else list(keys.accounts)


class KeyedNats:
    """Its files are in `place`; with `accounts`, others than those of the keyring. `more` is added to its
    configuration."""

    def __init__(
        self, place: Path, keys: Keyring, accounts: Sequence[Account] | None = None, more: str = ""
    ) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.place, self.port = place, free_port()
        self.url = f"nats://{HOST}:{self.port}"
        self.settings = Settings(nats_url=self.url)
        self.config = place / "nats.conf"
        folder.write(place, keys)
        if accounts is not None:
            (place / documents.SERVER_FILE).write_text(_part(keys, accounts))
        store = msgspec.json.encode(str(place / "data")).decode()
        self.config.write_text(
            f"host: {HOST}\nport: {self.port}\njetstream {{ store_dir: {store} }}\n{more}\n"
            f"include {documents.SERVER_FILE}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[BareClient] = []

    @property
    def keys(self) -> Keyring:
        found = folder.read(self.place / folder.KEYRING)
        assert found is not None
        return found

    def start(self) -> None:
        with (self.place / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([find_binary(), "-c", str(self.config)], stdout=log, stderr=log)
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            time.sleep(0.01)
        self.stop()
        raise NotStarted((self.place / "nats.log").read_text()[-2000:])

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    async def bus(self, user: str, name: str = "") -> JetStreamBus:
        return await as_user(self.url, self.place, self.keys, user, name)

    def client(self, user: str, keys: Keyring | None = None) -> "BareClient":
        """By what the folder has, or by another keyring. It is closed with the server at the latest."""
        keys = keys or self.keys
        return self.bare(keys.seed(user_key(user)), keys.tokens.get(user_key(user), ""))

    def bare(self, seed: str, token: str = "", nkey: str = "") -> "BareClient":
        client = BareClient(self.port, seed, token, nkey)
        self._clients.append(client)
        return client


async def as_user(url: str, place: Path, keys: Keyring, user: str, name: str = "") -> JetStreamBus:
    """By the file that the keyring's folder has of it."""
    file = str(place / documents.user_file(keys, user))
    files = LoginFiles(creds=file) if keys.mode == "jwt" else LoginFiles(nkey=file)
    return await connect(url, name=name, inbox_prefix=inbox_prefix(user), files=files)


def _part(keys: Keyring, accounts: Sequence[Account]) -> str:
    if keys.mode == "jwt":
        return documents.server_part(operator.signed(keys, accounts, NOW + 1))
    part = server_config.accounts_part(accounts, lambda user: {"nkey": keys.public(user_key(user))})
    return server_config.as_text(part)


@contextmanager
def running(server: KeyedNats) -> Iterator[KeyedNats]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


class NotStarted(Exception):
    """What the server says of its configuration."""


class Login(Exception):
    """The server does not let this user in."""


class Heard(msgspec.Struct, frozen=True):
    subject: str
    reply: str
    data: bytes


class BareClient:
    """The protocol with nothing in between: what the server says to each line is known before the next one."""

    def __init__(self, port: int, seed: str, token: str = "", nkey: str = "") -> None:
        self._socket = socket.create_connection((HOST, port), timeout=SOON_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        nonce = msgspec.json.decode(self._lines.readline().removeprefix(b"INFO "))["nonce"]
        key = read_seed(seed)
        proof = base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")
        who = {"jwt": token} if token else {"nkey": nkey or key.public}
        said = {**who, "sig": proof, "verbose": False, "pedantic": False, "lang": "test", "version": "1", "protocol": 1}
        self._sid = 0
        self.heard: list[Heard] = []
        self._socket.sendall(b"CONNECT " + msgspec.json.encode(said) + b"\r\n")
        try:
            error = self.flush()
        except OSError as lost:
            error = str(lost)
        if error:
            self.close()
            raise Login(error)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def publish(self, subject: str, data: bytes = b"", reply: str = "") -> str:
        """What the server has against it."""
        named = f"{subject} {reply}" if reply else subject
        self._socket.sendall(f"PUB {named} {len(data)}\r\n".encode() + data + b"\r\n")
        return self.flush()

    def subscribe(self, subject: str) -> str:
        """What the server has against it."""
        self._sid += 1
        self._socket.sendall(f"SUB {subject} {self._sid}\r\n".encode())
        return self.flush()

    def unsubscribe(self) -> None:
        """From the last one."""
        self._socket.sendall(f"UNSUB {self._sid}\r\n".encode())

    def flush(self) -> str:
        """The errors of what was sent up to now; what was heard is in `heard`."""
        errors: list[str] = []
        try:
            self._socket.sendall(b"PING\r\n")
            return "; ".join(self._read(errors))
        except (BrokenPipeError, ConnectionResetError):
            return "; ".join((*errors, CLOSED))

    def _read(self, errors: list[str]) -> list[str]:
        while True:
            line = self._lines.readline()
            if not line:
                return [*errors, CLOSED]
            verb, _, rest = line.rstrip(b"\r\n").partition(b" ")
            match verb.upper():
                case b"PONG":
                    return errors
                case b"PING":
                    self._socket.sendall(b"PONG\r\n")
                case b"-ERR":
                    errors.append(rest.decode())
                case b"MSG":
                    subject, _, *reply, size = rest.decode().split()
                    self.heard.append(Heard(subject, *reply or [""], self._lines.read(int(size) + 2)[:-2]))

    def until(self, pattern: str, data: bytes, within_s: float) -> bool:
        """Whether such a message comes."""
        deadline = time.monotonic() + within_s
        while True:
            self.flush()
            if any(matches(pattern, heard.subject) and data in heard.data for heard in self.heard):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
