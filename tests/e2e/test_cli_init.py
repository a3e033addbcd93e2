"""noetlctl init: what it writes runs."""

from tests.support.cli import Cli


def test_a_new_playbook_validates_passes_its_test_and_runs(cli: Cli) -> None:
    assert cli("init", "first").returncode == 0
    assert cli("validate", "--strict", "first.yaml").stderr == ""
    tested = cli("test", "--coverage-min", "100")
    assert (tested.returncode, tested.stderr) == (0, ""), tested.stdout
    assert "2 passed in " in tested.stdout
    done = cli("run", "first.yaml", "--set", "who=there")
    assert (done.returncode, done.stdout) == (0, "Hello, there!\n"), done.stderr
