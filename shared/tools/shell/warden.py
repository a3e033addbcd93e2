"""Makes a warden for every script of `kind: shell`: a small process that stays, so that a script costs no start of an
interpreter, and that ends what a warden leaves which its script ended or stopped. Started as `python -m
shared.tools.shell.warden <socket fd>`; ends, with all below it, when nobody holds the other end. Each byte that comes
brings the socket on which a new warden gets its script."""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from shared.tools.base import warden

SIZE = struct.Struct(">I")  # of the JSON that says what to run, after stdin, stdout and stderr


def main() -> None:
    asked = socket.socket(fileno=int(sys.argv[1]))
    asked.set_inheritable(False)
    parent = os.getppid()
    warden.adopt_orphans()
    warden.hear_of_end()
    gc.disable()
    gc.freeze()  # copies share their memory
    wakes, brood = warden.wake_on_signals(), Brood()
    while os.getppid() == parent:
        ready, _, _ = select.select([asked.fileno(), wakes], [], [], warden.LOOK_S if brood.strays else None)
        if wakes in ready:
            os.read(wakes, 64)
        brood.look()
        if asked.fileno() in ready and not _make(asked, brood):
            break
    warden.end_all()


class Brood:
    """The wardens. Whoever else is a child here has lost its own: it is ended. `strays`: there may be more of them."""

    def __init__(self) -> None:
        self.wardens = set[int]()
        self.strays = False

    def look(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | warden.STOPS | os.WNOHANG):
                self._see(found)
        if self.strays:
            strays = set(warden.children()) - self.wardens
            self.strays = bool(strays)
            warden.kill(strays)

    def _see(self, found: os.waitid_result) -> None:
        if found.si_code == os.CLD_STOPPED:
            warden.kill({found.si_pid} & self.wardens)
            return
        if found.si_pid not in self.wardens or found.si_status:
            self.strays = True
        self.wardens.discard(found.si_pid)


def _make(asked: socket.socket, brood: Brood) -> bool:
    """False: nobody asks now."""
    word, handles, _, _ = socket.recv_fds(asked, 1, 1)
    if not word:
        return False
    os.set_inheritable(handles[0], False)
    home = os.getpid()
    if (pid := os.fork()) == 0:
        asked.close()
        _keep(socket.socket(fileno=handles[0]), home)
    brood.wardens.add(pid)
    os.close(handles[0])
    return True


def _keep(control: socket.socket, home: int) -> NoReturn:
    """One script, from its start to the end of everything it started. A session of its own: no signal to a group
    reaches two wardens."""
    os.setsid()
    warden.adopt_orphans()
    warden.hear_of_end()
    answer = _run(control, home)
    if os.getppid() != home:  # the script did not end by itself
        os._exit(1)
    control.sendall(json.dumps(answer).encode())
    os._exit(int(warden.has_children()))


def _run(control: socket.socket, above: int) -> dict[str, Any]:
    handles, wanted = _asked(control)
    home = os.getpid()
    says, wrong = os.pipe()
    script = os.fork()
    if script == 0:
        _become(wanted, handles, home, wrong)
    for handle in (*handles, wrong):
        os.close(handle)
    if said := os.read(says, 16):  # nothing once it is the script's
        os.waitpid(script, 0)
        return {"errno": int(said), "error": os.strerror(int(said))}
    return {"code": warden.watch(script, control.fileno(), above)}


def _become(wanted: dict[str, Any], handles: list[int], home: int, wrong: int) -> NoReturn:
    try:
        os.setsid()
        warden.die_with(home)
        os.chdir(wanted["folder"])
        for target, handle in enumerate(handles):
            os.dup2(handle, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(wanted["command"][0], wanted["command"], wanted["env"])
    except OSError as error:
        os.write(wrong, str(error.errno).encode())
    os._exit(127)


def _asked(control: socket.socket) -> tuple[list[int], dict[str, Any]]:
    head, handles, _, _ = socket.recv_fds(control, SIZE.size, 3, socket.MSG_WAITALL)
    if len(head) < SIZE.size or len(handles) < 3:
        os._exit(1)  # the worker is gone
    for handle in handles:
        os.set_inheritable(handle, False)
    left, parts = SIZE.unpack(head)[0], list[bytes]()
    while left:
        part = control.recv(min(left, 1 << 20))
        if not part:
            os._exit(1)
        parts.append(part)
        left -= len(part)
    wanted: dict[str, Any] = json.loads(b"".join(parts))
    return handles, wanted


if __name__ == "__main__":
    main()
