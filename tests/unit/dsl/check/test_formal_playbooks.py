"""Checks run on what the compiler makes of the formal dialect, and are about what the author wrote."""

from shared.dsl.compile import compile_playbook
from shared.tools import registry

CLEAN = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: formal}
workload: {url: "http://localhost/", limit: 3, names: [a, b]}
workflow:
  - step: start
    args: {size: 10}
    tool: {kind: http, url: "{{ workload.url }}", params: {size: "{{ size }}"}}
    retry: {max_attempts: 3, initial_delay: 0.1, backoff_multiplier: 2.0}
    vars: {total: "{{ result.total }}"}
    case:
      - when: "{{ event.name == 'call.done' and vars.total > limit }}"
        then: {next: [{step: many}]}
      - when: "{{ event.name == 'call.error' }}"
        then: {next: [{step: end}]}
    next: [few]
  - step: many
    loop: {in: "{{ names }}", iterator: item, mode: parallel}
    tool: {kind: python, args: {item: "{{ item }}"}, code: "result = item"}
    next: end
  - step: few
    tool: {kind: python, args: {total: "{{ vars.total }}"}, code: "result = total"}
    sink: {tool: {kind: duckdb, table: t, args: {n: "{{ result }}"}}}
    next: [end, many]
  - step: end
"""


def told(source: str) -> list[tuple[str, int]]:
    return [(each.code, each.line) for each in compile_playbook(source, kinds=registry.specs()).diagnostics]


def test_a_clean_formal_playbook_has_nothing_to_tell() -> None:
    assert told(CLEAN) == []


def test_a_mistyped_name_is_told_on_the_line_of_the_author() -> None:
    line = next(number for number, text in enumerate(CLEAN.splitlines(), 1) if "names }}" in text)
    assert told(CLEAN.replace("{{ names }}", "{{ namse }}")) == [("DSL910", line)]


def test_vars_nothing_sets_are_told() -> None:
    line = next(number for number, text in enumerate(CLEAN.splitlines(), 1) if "{{ vars.total }}" in text)
    assert told(CLEAN.replace("{{ vars.total }}", "{{ vars.totl }}")) == [("DSL911", line)]
