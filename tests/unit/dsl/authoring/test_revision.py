"""What two sources of one playbook differ in."""

from shared.dsl.authoring.revision import LAYOUT, changes, states_version

OLD = b"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: a, path: a}
workload: {url: one, size: 1, old: 1}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: load}]}
  - step: load
    tool: {kind: noop}
"""


def test_the_parts_that_differ_are_named() -> None:
    new = OLD.replace(b"one, size: 1, old: 1", b"two, size: 1, more: 1").replace(
        b"  - step: load\n", b"  - step: save\n").replace(b"[{step: load}]", b"[{step: save}]")
    assert changes(OLD, new) == [
        "workload.url changed", "workload.old removed", "workload.more added", "step start changed",
        "step load removed", "step save added"]
    assert changes(OLD, OLD.replace(b"metadata: {name: a, path: a}", b"metadata: {name: a, path: a, version: 2}")) == [
        "metadata.version added"]


def test_comments_are_no_change_of_what_it_does() -> None:
    assert changes(OLD, OLD) == []
    assert changes(OLD, b"# why\n" + OLD) == [LAYOUT]


def test_what_has_no_names_is_told_as_a_whole() -> None:
    assert changes(OLD, OLD.replace(b"  - step: load\n    tool: {kind: noop}\n", b"  - load\n")) == [
        "workflow changed"]


def test_whether_it_states_its_version() -> None:
    assert not states_version(OLD)
    assert states_version(OLD.replace(b"path: a}", b"path: a, version: 1}"))
