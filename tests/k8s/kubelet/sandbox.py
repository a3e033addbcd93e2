"""What a Pod's containers share: a network with an address of its own, a host name, and processes where it says so.

Held by a process that only sleeps. Nothing of it needs root beyond the namespace that the tests run in."""

import itertools
import os
import signal
import subprocess
from ipaddress import IPv4Address

from tests.k8s.cluster.plane import ADDRESS, BRIDGE, NETWORK
from tests.support.waiting import wait_until

_numbers = itertools.count(1)


class Sandbox:
    def __init__(self, name: str, *, share_processes: bool) -> None:
        number = next(_numbers)
        self.address, self._link, self._share = str(IPv4Address(ADDRESS) + number), f"pod{number}", share_processes
        spaces = ["--net", "--uts", *(("--pid", "--mount-proc") if share_processes else ())]
        self._outer = subprocess.Popen(["unshare", *spaces, "--fork", "sleep", "infinity"], stderr=subprocess.DEVNULL)
        self._pid = wait_until(lambda: below(self._outer.pid), "a sandbox", so=lambda found: len(found) > 1)[1]
        wait_until(self._sleeps, "it sleeps", every_s=0.01)
        self._wire(name)

    def _sleeps(self) -> bool:
        with open(f"/proc/{self._pid}/comm", encoding="utf-8") as file:
            return file.read().strip() == "sleep"

    def _wire(self, name: str) -> None:
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(self._pid))
        _run("ip", "link", "set", self._link, "master", BRIDGE, "up")
        inside = (f"hostname {name} && ip link set lo up && ip addr add {self.address}/{NETWORK} dev eth0 && "
                  f"ip link set eth0 up && ip route add default via {ADDRESS}")
        _run("nsenter", "-t", str(self._pid), "-n", "-u", "sh", "-c", inside)

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self._pid), "-n", "-u", *(("-p", "-m") if self._share else ())]

    @property
    def shares_processes(self) -> bool:
        return self._share

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._outer.wait()


def below(pid: int) -> list[int]:
    """The process and those that come of it, the oldest first."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            children = [int(each) for each in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pid, *(found for child in children for found in below(child))]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
