"""Keeps the keys of the broker's users in Secrets, run by a Job of the chart in its own account.

1. *Keys are made once.* What the Secrets hold is laid into a folder, `noetlctl admin nats-auth ensure` adds what is
   missing, and what has changed is written back. Nothing that is there is made again.
2. *The keyring is written first.* From it everything else can be written again; a user's key that it does not know would
   be lost to the next run. Whoever keeps accounts (`system`) is with it: no service mounts that Secret.
3. *Another Job may run at the same time.* A Secret is changed only as it was read; when it is another by now, all begins
   again from what is there.

With the standard library alone.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ENSURE = ("noetlctl", "admin", "nats-auth", "ensure", "--out")
TRIES = 10
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
        """Exactly these files; raises Changed when it is another than `before`."""
        data = {file: base64.b64encode(content).decode() for file, content in files.items()}
        try:
            if before is not None:
                self._ask("PUT", f"{self._url}/{name}", {**before, "data": data})
                return
            labels = {"app.kubernetes.io/part-of": "noetl"}
            secret = {"metadata": {"name": name, "labels": labels}, "type": "Opaque", "data": data}
            self._ask("POST", self._url, {"apiVersion": "v1", "kind": "Secret", **secret})
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


def ensure(secrets, users, keyring, command=ENSURE):
    """The names of the Secrets that were written."""
    before = {name: secrets.read(name) for name in (keyring, users)}
    had = {name: files_of(secret) for name, secret in before.items()}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o700)
        for name, content in {**had[users], **had[keyring]}.items():
            file = folder / name
            file.touch(0o600)
            file.write_bytes(content)
        subprocess.run([*command, str(folder)], check=True)
        found = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    wanted = {name: {file: found[file] for file in found if belongs_to_keyring(file) == (name == keyring)}
              for name in (keyring, users)}
    written = [name for name in (keyring, users) if before[name] is None or wanted[name] != had[name]]
    for name in written:
        secrets.write(name, wanted[name], before[name])
    return written


def main(users, keyring):
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    secrets = Secrets(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
    for _ in range(TRIES):
        try:
            written = ensure(secrets, users, keyring)
        except Changed as error:
            print(f"Secret {error} was changed meanwhile: again", flush=True)
            continue
        print(f"written: {', '.join(written)}" if written else "all keys are there", flush=True)
        return 0
    print(f"the Secrets {users} and {keyring} are changed by others all the time", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
