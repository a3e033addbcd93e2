"""Keeps the keys of the broker's users in Secrets, in an account of its own: `ensure` as a Job, once; `follow` as a
Deployment, which also tells the broker of pools that come and go.

1. *Keys are made once.* What the Secrets hold is laid into a folder, `noetlctl admin nats-auth ensure` adds what is
   missing, and what has changed is written back. Nothing that is there is made again.
2. *The keyring is written first.* From it everything else can be written again; a user's key that it does not know
   would be lost to the next run. Whoever keeps accounts (`system`) is with it: no service mounts that Secret.
3. *Two of them may run at the same time.* A Secret is changed only as it was read; when it is another by now, all
   begins again from what is there.
4. *Half a file is never kept.* While the command runs, files count when two looks found the same.

With the standard library alone.
"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ENSURE = ("noetlctl", "admin", "nats-auth", "ensure")
FOLLOW = (*ENSURE, "--apply", "--follow")
KEPT = (".nk", ".creds", ".json", ".conf")
TRIES = 10
LOOK_S = 1.0
TIMEOUT_S = 15
CONFLICT, NOT_FOUND = 409, 404


class Changed(Exception):
    """Somebody else wrote it meanwhile."""


class Secrets:
    def __init__(self, server, account=ACCOUNT):
        self._account = account
        namespace = (account / "namespace").read_text().strip()
        self._url = f"{server}/api/v1/namespaces/{namespace}/secrets"
        secure = server.startswith("https")
        self._tls = ssl.create_default_context(cafile=str(account / "ca.crt")) if secure else None

    def read(self, name):
        """The Secret as the API has it; None where there is none."""
        try:
            return self._ask("GET", f"{self._url}/{name}")
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def write(self, name, files, before):
        """Exactly these files. Returns the Secret; raises Changed when it is another than `before`."""
        data = {file: base64.b64encode(content).decode() for file, content in files.items()}
        try:
            if before is not None:
                return self._ask("PUT", f"{self._url}/{name}", {**before, "data": data})
            labels = {"app.kubernetes.io/part-of": "noetl"}
            secret = {"metadata": {"name": name, "labels": labels}, "type": "Opaque", "data": data}
            return self._ask("POST", self._url, {"apiVersion": "v1", "kind": "Secret", **secret})
        except urllib.error.HTTPError as error:
            if error.code in (CONFLICT, NOT_FOUND):
                raise Changed(name) from None
            raise

    def _ask(self, method, url, body=None):
        token = (self._account / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._tls) as answer:
            return json.load(answer)


def files_of(secret):
    return {name: base64.b64decode(text) for name, text in ((secret or {}).get("data") or {}).items()}


def belongs_to_keyring(file):
    return file == "keyring.json" or file.startswith("system.")


class Kept:
    """Both Secrets as they were read, and as files of a folder."""

    def __init__(self, secrets, users, keyring):
        self._secrets, self._names = secrets, (keyring, users)  # in the order in which they are written
        self._before = {name: secrets.read(name) for name in self._names}
        self.files = {file: content for secret in self._before.values() for file, content in files_of(secret).items()}

    @property
    def has_keyring(self):
        return self._before[self._names[0]] is not None

    def lay_out(self, folder):
        folder.chmod(0o700)
        for name, content in self.files.items():
            file = folder / name
            file.touch(0o600)
            file.write_bytes(content)

    def store(self, files):
        """The names of the Secrets that were written."""
        written = []
        for name in self._names:
            wanted = {file: files[file] for file in files if belongs_to_keyring(file) == (name == self._names[0])}
            if self._before[name] is None or files_of(self._before[name]) != wanted:
                self._before[name] = self._secrets.write(name, wanted, self._before[name])
                written.append(name)
        self.files = files
        return written


def files_in(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in KEPT}


def ensure(secrets, users, keyring, command=ENSURE):
    """The names of the Secrets that were written."""
    kept = Kept(secrets, users, keyring)
    with tempfile.TemporaryDirectory() as place:
        kept.lay_out(Path(place))
        subprocess.run([*command, "--out", place], check=True)
        return kept.store(files_in(Path(place)))


def follow(secrets, users, keyring, command=FOLLOW, look_s=LOOK_S):
    """Until the command ends; its exit code. What it writes is kept."""
    while not (kept := Kept(secrets, users, keyring)).has_keyring:
        say(f"waiting for the Secret {keyring}")
        time.sleep(look_s)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kept.lay_out(folder)
        child = subprocess.Popen([*command, "--out", place])
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            seen = kept.files
            while True:
                over, found = child.poll(), files_in(folder)
                if found == seen and found != kept.files:
                    say(f"written: {', '.join(kept.store(found))}")
                elif found == seen and over is not None:
                    return over
                seen = found
                time.sleep(look_s)
        finally:
            child.terminate()
            child.wait()


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(how, users, keyring):
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    secrets = Secrets(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
    for _ in range(TRIES):
        try:
            if how == "follow":
                return follow(secrets, users, keyring)
            written = ensure(secrets, users, keyring)
            say(f"written: {', '.join(written)}" if written else "all keys are there")
            return 0
        except Changed as error:
            say(f"Secret {error} was changed meanwhile: again")
    say(f"the Secrets {users} and {keyring} are changed by others all the time")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
