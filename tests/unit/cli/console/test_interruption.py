"""Ctrl-C twice is Ctrl-C once, whenever the second one comes."""

import signal
import subprocess
import sys
import time

import pytest

from services.cli.console import exits
from tests.support.paths import ROOT

# What a command does that is interrupted: it tidies up, says what became of it, and ends.
COMMAND = """
import asyncio, os, signal, sys, time
from services.cli.console import run_async

def again():
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    time.sleep(0.05)  # a signal is heard between two instructions

async def work():
    print("begun", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.3)
        print("tidied up", flush=True)

code = run_async.run(work())
again()
sys.exit(code)
"""


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.2])
def test_another_interrupt_changes_nothing(pause: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", COMMAND], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (exits.INTERRUPTED, "tidied up\n"), err
    assert err.splitlines()[0] == "noetlctl: interrupted"


# Interrupted while it loads what it needs, and again while it says so.
LOADING = """
import builtins, os, signal, sys, time

class Writing:
    def write(self, text):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)  # a signal is heard between two instructions
        sys.__stderr__.write(text)

    def flush(self):
        sys.__stderr__.flush()

def load(name, *rest, known=builtins.__import__):
    if name == "services.cli.main":
        sys.stderr = Writing()
        raise KeyboardInterrupt
    return known(name, *rest)

from services.cli.__main__ import main
builtins.__import__ = load
main()
"""


def test_nor_does_it_while_the_command_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], cwd=ROOT, text=True, capture_output=True, check=False,
                          timeout=60)
    assert (done.returncode, done.stderr) == (exits.INTERRUPTED, "noetlctl: interrupted\n")


# Python takes down what it has loaded, and puts back what signals did before.
ENDING = """
import os, signal
from services.cli.main import main

class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), numbers=(signal.SIGINT, signal.SIGTERM)):
        for number in numbers:
            kill(me, number)

os.late = Late()
main(["--version"])
"""


def test_nor_does_it_when_all_is_done_and_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], cwd=ROOT, text=True, capture_output=True, check=False,
                          timeout=60)
    assert (done.returncode, done.stderr) == (exits.OK, "")
