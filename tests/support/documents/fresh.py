"""A virtualenv as a newcomer has it, with the wheel of this tree and nothing of it besides.

Two forms. The short one, which CI runs, takes what the wheel depends on from the virtualenv of the tests, and is there
in seconds. `make fresh` (NOETL_FRESH=full) copies the tree and types what README.md says to install it, for which the
packages come from the index of whoever runs it; that takes a minute.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cli import environment
from tests.support.documents import transcript
from tests.support.documents.transcript import Shell
from tests.support.paths import ROOT

FULL = os.environ.get("NOETL_FRESH") == "full"
INSTALL_S = 600.0
BUILT = ("pyproject.toml", "README.md", "services", "shared", "examples")  # what an installation reads
README = (ROOT / "README.md").read_text(encoding="utf-8")


def install_step() -> transcript.Step:
    """The first block of README.md."""
    step = next(transcript.steps(README))
    assert "pip install" in step.command
    return step


@contextmanager
def made() -> Iterator[Path]:
    """A virtualenv with `noetlctl`: its folder. Not in pytest's, and open to all: run by root, PostgreSQL is another
    user's, who reads its programs there."""
    with tempfile.TemporaryDirectory(prefix="noetl-venv-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield _typed(folder) if FULL else _short(folder)


def _typed(folder: Path) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for name in BUILT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", ".noetl"))
        else:
            shutil.copy(source, tree)
    shell = Shell(tree, without_ours(environment()))
    try:
        shell.run(install_step().command, INSTALL_S)
    finally:
        shell.close()
    return tree / ".venv"


def _short(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    made = folder / "venv"
    _call(sys.executable, "-m", "venv", "--without-pip", str(made))
    _call(*pip, "--python", str(made / "bin/python"), "install", "--no-deps", str(wheel))
    (site,) = made.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (made / "bin" / "nats-server").symlink_to(Path(sysconfig.get_path("scripts")) / "nats-server")
    return made


def _call(*command: str) -> None:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=INSTALL_S)
    assert done.returncode == 0, done.stdout + done.stderr


def without_ours(found: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def active(installed: Path, home: Path) -> dict[str, str]:
    """The environment of a shell in which it is active, with nothing of the user's."""
    found = without_ours(environment(XDG_CONFIG_HOME=str(home), PYTHONSAFEPATH="1"))
    return {**found, "PATH": f"{installed / 'bin'}:{os.environ['PATH']}"}


@contextmanager
def session(installed: Path) -> Iterator[Shell]:
    """A shell in an empty folder. Not in pytest's: run by root, PostgreSQL is another user's."""
    with tempfile.TemporaryDirectory(prefix="noetl-fresh-") as name, tempfile.TemporaryDirectory() as home:
        shell = Shell(Path(name), active(installed, Path(home)))
        try:
            yield shell
        finally:
            shell.close()


def follow(shell: Shell, step: transcript.Step, within: float) -> None:
    """Types a block; what is printed has to fit."""
    got = shell.run(step.command, within)
    wrong = transcript.misfit(step.expected, got)
    assert not wrong, f"line {step.line}:\n{step.command}\n{wrong}; it printed\n" + "\n".join(got)
