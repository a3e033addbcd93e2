"""Verdicts for people, and the totals of many."""

import json
from typing import Any

import click

from services.cli.console import render, times
from services.cli.console.render import Column
from services.cli.verify.checker import Summary
from services.cli.verify.verdict import shown

MAX_RECORD = 600
SIGNS = {"verified": "✓", "unfinished": "…", "violated": "✗", "unverifiable": "?"}
COLUMNS = [
    Column("EXECUTION", "execution_id"),
    Column("VERDICT", "verdict"),
    Column("RULE", lambda row: row["violations"][0]["rule"] if row["violations"] else None),
    Column("SEQ", lambda row: row["violations"][0]["seq"] if row["violations"] else None),
    Column("WHY", lambda row: row["violations"][0]["message"] if row["violations"] else row["reason"]),
]


def one(told: dict[str, Any], violations: int) -> None:
    word, proof = told["verdict"], told["proof"]
    click.echo(f"{SIGNS[word]} {told['execution_id']} {told['path']} {_verdict(told)}")
    for found in told["violations"]:
        click.echo(f"\n{found['rule']} at sequence {found['seq']}: {found['message']}")
        for record in found["records"]:
            click.echo(f"  {_evidence(record)}")
        if found["record"] is not None and not found["records"]:
            text = json.dumps(found["record"], ensure_ascii=False)
            click.echo("  " + (text if len(text) <= MAX_RECORD else text[:MAX_RECORD] + "…"))
    if violations > len(told["violations"]):
        click.echo(f"\n{violations - len(told['violations'])} more (--all-violations tells them)")
    if word in ("verified", "unfinished"):
        click.echo("")
        for name, text in _lines(told, proof):
            click.echo(f"  {name:<11} {text}")


def _evidence(record: dict[str, Any]) -> str:
    lease = f" {record['worker']} epoch {'.'.join(map(str, record['epoch']))}" if record["worker"] else ""
    return f"@{record['seq']} {times.shown(record['ts'], exact=True)} {record['writer']}{lease}: {record['says']}"


def _verdict(told: dict[str, Any]) -> str:
    match told["verdict"]:
        case "verified":
            return f"{told['status']}: verified"
        case "unfinished":
            return f"is not over; verified up to sequence {told['last']}"
        case "unverifiable":
            return f"cannot be verified: {told['reason']}"
    return f"{told['status']}: violated"


def _lines(told: dict[str, Any], proof: dict[str, Any]) -> list[tuple[str, str]]:
    tokens, runs, loops, ctx, tasks = (proof[name] for name in ("tokens", "runs", "loops", "ctx", "tasks"))
    reports, waits, children, decisions = (proof[name] for name in ("reports", "waits", "children", "decisions"))
    writers = ", ".join(
        f"{writer} {count['records']} ({_many(count['events'], 'event')})" for writer, count in proof["writers"].items()
    )
    cancelled = f", {runs['cancelled']} cancelled" if runs["cancelled"] else ""
    unrouted = f", {runs['unrouted']} without a routed end" if runs["unrouted"] else ""
    return [
        ("records", f"{writers}; sequences {told['first']} to {told['last']}"),
        ("decisions", f"{sum(decisions.values())} made again, each the same: "
                      f"router {decisions['router']}, scheduler {decisions['scheduler']}"),
        ("numbering", f"{_many(proof['numbering'], 'sequence')} without a gap"),
        ("tokens", f"{tokens['made']} made, {tokens['made'] - tokens['left']} consumed: {tokens['entered']} entered, "
                   f"{tokens['rejected']} rejected, {tokens['absorbed']} absorbed; {tokens['left']} left"),
        ("runs", f"{runs['scheduled']} scheduled, {runs['ended']} with exactly one end{cancelled}{unrouted}"),
        ("tasks", f"{tasks['finished']} finished once, {_many(tasks['retried'], 'attempt')} tried again; "
                  f"{_many(tasks['named'], 'outcome')} with the name of its call"),
        ("leases", f"{reports['leases']}; {_many(reports['counted'], 'report')} counted, "
                   f"{reports['set_aside']} set aside"),
        ("loops", f"{loops['started']}, with {_many(loops['iterations_started'], 'iteration')} started and "
                  f"{loops['iterations_ended']} ended"),
        ("ctx", f"{_many(ctx['patches'], 'patch', 'patches')} folded, {_many(ctx['keys'], 'key')}, {ctx['digest']}"),
        ("waits", f"{waits['begun']} begun, {waits['over']} over; "
                  f"{_many(children['asked'], 'child', 'children')}, {children['ended']} ended"),
        ("limits", f"{_many(proof['places'], 'place')} given before use"),
        ("read model", _read_model(told["projection"])),
    ]


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _read_model(projection: dict[str, Any]) -> str:
    if projection["state"] == "same":
        return f"{projection['rows']} rows in {len(projection['tables'])} tables, the same as the log"
    return f"not compared: {projection['reason']}"


def totals(summary: Summary, most: int | None) -> dict[str, Any]:
    """`--all` as JSON has it."""
    words, projections, known = summary.words(), summary.projections(), summary.known.values()
    return {
        "executions": len(known),
        **{word: words[word] for word in ("verified", "unfinished", "violated", "unverifiable")},
        "records": sum(counts.records for counts in known),
        "events": sum(counts.events for counts in known),
        "still": {"looked_at": len(summary.still), "left_out": summary.more},
        "projection": {
            **{state: projections[state] for state in ("same", "different", "behind", "unknown")},
            "rows": sum(counts.rows for counts in known),
            "reason": summary.reason,
        },
        "listed": [shown(verdict, (), most) for verdict in summary.listed.values()],
    }


def all_of(told: dict[str, Any]) -> None:
    words = [f"{told[word]} {word}" for word in ("verified", "unfinished", "violated", "unverifiable")]
    click.echo(f"{_many(told['executions'], 'execution')}: {', '.join(words)}")
    click.echo(f"{_many(told['records'], 'record')}, {_many(told['events'], 'event')}")
    if told["still"]["left_out"]:
        left = _many(told["still"]["left_out"], "execution")
        click.echo(f"not over and without anything new for a while: {left} more than were looked at")
    projection = told["projection"]
    if projection["unknown"] + projection["behind"]:
        apart = projection["unknown"] + projection["behind"]
        click.echo(f"read model: {_many(apart, 'execution')} not compared: {projection['reason']}")
    if projection["same"] + projection["different"]:
        whole = _many(projection["same"], "execution")
        click.echo(f"read model: {_many(projection['rows'], 'row')}; as the log has them: {whole}")
    if told["listed"]:
        click.echo("")
        render.rows(told["listed"], COLUMNS, "table", "execution_id")
