"""noetlctl replay over executions of a stack of processes, chosen from its read model."""

import json
import time

from tests.support.cli import Cli, Up

SOURCE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sums, path: replay/sums}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: python, code: "result = n + 1", args: {n: "{{ workload.n }}"}}
    next: {arcs: [{step: small, when: "{{ start < 3 }}"}, {step: large}]}
  - {step: small, tool: {kind: noop, args: {is: small}}}
  - {step: large, tool: {kind: noop, args: {is: large}}}
"""


def test_the_latest_executions_of_a_playbook_are_replayed(up: Up, cli: Cli) -> None:
    (up.folder / "sums.yaml").write_text(SOURCE)
    (up.folder / "edited.yaml").write_text(SOURCE.replace("start < 3", "start < 4"))
    assert cli("register", "sums.yaml", cwd=up.folder).returncode == 0
    for n in (1, 2, 5):
        assert cli("execute", "replay/sums", "--set", f"n={n}", "--wait", cwd=up.folder).returncode == 0
    for _ in range(50):  # the read model may be a moment behind
        same = cli("replay", "--playbook", "replay/sums", "-o", "json", cwd=up.folder)
        if same.returncode == 0 and json.loads(same.stdout)["total"] == 3:
            break
        time.sleep(0.2)
    assert json.loads(same.stdout)["identical"] == 3
    edited = cli("replay", "--playbook", "replay/*", "--last", "3", "--against", "edited.yaml", cwd=up.folder)
    assert edited.returncode == 1
    assert edited.stderr.splitlines()[-1] == "3 replayed: 2 identical, 1 diverging, 0 in need of calls"
    assert "step start: the log has step.done to large; now it is step.done to small" in edited.stdout
