"""A playbook and a test in a few lines, run as `noetlctl test` runs them."""

from textwrap import dedent
from typing import Any

from services.cli.testing.runner import CaseReport, FileReport, Options, run_files
from services.cli.testing.suites import Book, Suite
from shared.answers.playtests.coverage import Coverage, Reached
from shared.answers.rehearsal.types import Need
from shared.dsl.authoring.source_lines import Lines
from shared.dsl.compile import compile_playbook
from shared.dsl.playtests.read import CompiledTest, compile_test
from shared.events.outcome import Outcome, ok
from shared.tools import registry

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
SHOP = """
metadata: {name: shop, path: shop}
workload: {items: [1, 2, 3], limit: 10}
workflow:
  - step: start
    tool:
      - name: price
        kind: http
        url: "http://shop/{{ workload.limit }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.http.status == 503 }}"
                then: {do: retry, attempts: 3, delay: 10}
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else: {then: {do: continue, set_ctx: {price: "{{ outcome.result.data.price }}"}}}
    next:
      arcs:
        - {step: pay, when: "{{ event.name == 'step.done' and ctx.price <= workload.limit }}"}
        - {step: refuse, when: "{{ event.name == 'step.done' }}"}
  - step: pay
    loop: {in: "{{ workload.items }}", iterator: item}
    tool: {kind: postgres, auth: db, command: "INSERT INTO paid VALUES ({{ iter.item }}) RETURNING id"}
  - step: refuse
    tool: {kind: python, code: "result = 'too dear'"}
"""
TEST = "apiVersion: noetl.io/v2\nkind: Test\nplaybook: book.yaml\n"


def book(source: str, name: str = "book.yaml") -> Book:
    data = (HEAD + dedent(source)).encode()
    compiled = compile_playbook(data, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    return Book(name, data, compiled.plan)


def compiled(test: str, *books: Book) -> CompiledTest:
    known = {each.file: each.plan for each in books}
    return compile_test(TEST + dedent(test), lambda name: known.get(name, "there is no such file"), file="t.test.yaml")


def pretend(need: Need) -> Outcome:
    """Stands for tools that are run for real."""
    return ok({"ran": need.kind})


def run(source: str, test: str, *others: Book, options: Options | None = None) -> FileReport:
    books = (book(source), *others)
    found = compiled(test, *books)
    assert found.test is not None, [str(each) for each in found.diagnostics]
    (report,) = run_files([Suite("t.test.yaml", found, books)], options or Options(), pretend, {})
    return report


def one(source: str, test: str, *others: Book, options: Options | None = None) -> CaseReport:
    (case,) = run(source, test, *others, options=options).cases
    return case


def told(case: CaseReport) -> list[tuple[str, Any, Any]]:
    return [(failure.what, failure.expected, failure.got) for failure in case.failures]


def coverage(source: str, test: str, *others: Book) -> dict[str, list[Reached]]:
    """What was reached of each playbook, by its path."""
    books = (book(source), *others)
    counts: dict[str, Coverage] = {}
    list(run_files([Suite("t.test.yaml", compiled(test, *books), books)], Options(), pretend, counts))
    return {each.plan.path: counts[each.plan.digest].parts(Lines(each.source, registry.specs()))
            for each in books if not isinstance(each.plan, str)}
