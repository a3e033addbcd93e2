"""A step that collects: everything behind its calls sees the whole, as arcs and later steps do (FX §6.2)."""

from typing import Any

from tests.unit.dsl.lower.support import Ran, page, run

PAGES = """
- step: start
  tool: {kind: http, url: "http://x", params: {page: 1}}
  retry:
    - when: "{{ response.data.more }}"
      then:
        max_attempts: 9
        next_call: {params: {page: "{{ response.data.page + 1 }}"}}
        collect: {strategy: extend, path: data.items, into: pages}
        sink: {tool: noop, args: {page: "{{ page.data.page }}"}}
  REST
  next: [{step: last, args: {n: "{{ result | length }}"}}]
- {step: last, tool: {kind: noop, args: {n: "{{ n }}", all: "{{ start.pages }}"}}}
- {step: six, tool: {kind: noop}}
"""


SINK = '        sink: {tool: noop, args: {page: "{{ page.data.page }}"}}\n'


def collected(rest: str, *, sink: bool = True) -> Ran:
    def answer(keys: dict[str, Any]) -> Any:
        n = keys["params"]["page"]
        return page({"page": n, "items": [n * 10, n * 10 + 1], "more": n < 3})

    return run(PAGES.replace("REST", rest).replace(SINK, SINK if sink else ""), {"start_task": answer})


def test_vars_and_the_steps_own_sink_see_the_whole() -> None:
    ran = collected('vars: {r: "{{ result }}", s: "{{ start }}", p: "{{ start.pages | length }}", '
                    'last: "{{ response.data.page }}", code: "{{ response.status_code }}"}\n'
                    '  sink: {tool: noop, args: {r: "{{ result }}", c: "{{ response.status_code }}"}}')
    whole = [10, 11, 20, 21, 30, 31]
    kept = {name: ran.ctx[name] for name in ("r", "s", "p", "last", "code")}
    assert kept == {"r": whole, "s": whole, "p": 6, "last": 3, "code": 200}
    stored = [keys["args"] for name, keys in ran.calls if "sink" in name]
    assert stored == [{"page": 1}, {"page": 2}, {"r": whole, "c": 200}, {"page": 3}]
    assert (ran.args("last_task"), ran.result("start")) == ([{"n": 6, "all": whole}], whole)


def test_a_rule_decides_by_the_whole_whether_it_acts_or_only_leads() -> None:
    rule = "case: [{when: \"{{ event.name == 'call.done' and result | length == 6 ALSO}}\", then: {SET next: six}}]"
    for also in ("", "and response.data.page == 3 "):
        for act in ("", 'set: {n: "{{ result | length }}"},'):
            for sink in (True, False):
                ran = collected(rule.replace("ALSO", also).replace("SET", act), sink=sink)
                assert ran.steps == ["start", "six"], (also, act, sink)
                assert ran.ctx.get("n", 6) == 6


def test_a_rule_that_ends_the_pages_collects_the_last_one_and_not_the_whole_again() -> None:
    def answer(keys: dict[str, Any]) -> Any:
        n = keys["params"]["page"]
        return page({"page": n, "more": n < 3})

    ran = run("""
    - step: start
      tool: {kind: http, url: "http://x", params: {page: 1}}
      case:
        - when: "{{ event.name == 'call.done' and response.data.more }}"
          then:
            retry: {max_attempts: 9, next_call: {params: {page: "{{ response.data.page + 1 }}"}}}
            collect: {strategy: append, into: pages}
        - when: "{{ event.name == 'call.done' }}"
          then: {collect: {strategy: append, into: pages}, next: last}
    - {step: last, tool: {kind: noop, args: {all: "{{ start }}"}}}
    """, {"start_task": answer})
    (last,) = ran.args("last_task")
    assert [each["page"] for each in last["all"]] == [1, 2, 3]
