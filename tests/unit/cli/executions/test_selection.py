"""Which executions are meant: selectors, statuses, paths, and the SQL they become."""

from datetime import UTC, datetime

import click
import pytest

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.executions import label_selector, selection
from services.cli.executions.label_selector import Term
from services.cli.executions.selection import Selection
from tests.support.cli import noetlctl

LABELS = {"team": "data", "tier": "gold"}


@pytest.mark.parametrize(
    ("text", "terms", "holds"),
    [
        ("team=data", [Term("team", "one of", ("data",))], True),
        ("team==ops", [Term("team", "one of", ("ops",))], False),
        ("team!=ops , tier = gold", [Term("team", "none of", ("ops",)), Term("tier", "one of", ("gold",))], True),
        ("env!=x", [Term("env", "none of", ("x",))], True),
        ("team in (ops, data)", [Term("team", "one of", ("ops", "data"))], True),
        ("team notin (ops,data)", [Term("team", "none of", ("ops", "data"))], False),
        ("team", [Term("team", "there")], True),
        ("!team,!env", [Term("team", "not there"), Term("env", "not there")], False),
        ("a/b.c=", [Term("a/b.c", "one of", ("",))], False),
    ],
)
def test_a_selector_is_terms_that_all_hold(text: str, terms: list[Term], holds: bool) -> None:
    found = label_selector.parse(text)
    assert list(found) == terms
    assert all(term.holds(LABELS) for term in found) is holds


@pytest.mark.parametrize("text", ["", ",", "a b", "a in b", "a=(b)", "!a=b", "=x", "a,,b", ",".join("k" * 33)])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"selector|label|terms"):
        label_selector.parse(text)


def test_labels_to_give_are_assignments() -> None:
    assert label_selector.assigned(("a=1,b=x y", "c=")) == {"a": "1", "b": "x y", "c": ""}
    for wrong in ("a", "a b=c", "a=(x)"):
        with pytest.raises(click.BadParameter):
            label_selector.assigned((wrong,))


def test_statuses_may_stand_for_several() -> None:
    assert selection.statuses("failed, live") == ("failed", *selection.LIVE)
    assert selection.statuses("") == ()
    with pytest.raises(CliError, match="no status 'fialed'"):
        selection.statuses("fialed")


def test_a_star_in_a_path_is_anything_and_nothing_else_is() -> None:
    assert selection.like("etl/*_50%") == "etl/%\\_50\\%"


def test_values_are_bound_and_never_text_of_the_statement() -> None:
    since = datetime(2026, 11, 16, tzinfo=UTC)
    terms = label_selector.parse("a=1,b in (x,y),c!=z,d,!e")
    text, values = selection.where(Selection(terms, ("failed",), "p/*", since))
    assert values == ["a", "1", "b", ["x", "y"], "c", ["z"], "d", "e", ["failed"], "p/%", since]
    assert all(f"${n}" in text for n in range(1, 12))
    assert selection.where(Selection()) == ("true", [])


@pytest.mark.parametrize("command", ["cancel", "pause", "resume", "retry-failed", "rerun --failed"])
def test_names_or_a_selection_and_not_both(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl(*command.split()) == exits.USAGE
    assert noetlctl(*command.split(), "x", "-l", "a=b") == exits.USAGE
    assert "name executions, or choose them" in capsys.readouterr().err


def test_more_names_than_one_call_takes_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("services.cli.executions.bulk.MAX_SELECTED", 2)
    assert noetlctl("cancel", "a", "b", "c") == exits.USAGE
    assert "at most 2 in one call" in capsys.readouterr().err


def test_only_executions_are_selected(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("get", "playbooks", "--status", "failed") == exits.USAGE
    assert "choose among executions" in capsys.readouterr().err
