"""The playbooks of the simulated world and where each must end, whatever happens on the way.

`kind: python` runs no code here: its `args` say what the call does. `give` is the result, `takes` the
seconds, `fails` how many first attempts fail, `breaks` fails every attempt, `size` makes a large result.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.model.edition import EDITION
from shared.tools import registry
from tests.sim.books.control import CALLS, FAMILY, JOINS, NAPS, PATIENT, SAGA, WAITS
from tests.sim.books.limits import ONE_AT_A_TIME, PLACES
from tests.sim.books.loops import (
    BEST_EFFORT,
    CURSOR,
    FAIL_FAST,
    NESTED,
    PARALLEL,
    SEQUENTIAL,
    STOPS,
    TOLERANT,
    local,
)


class Expected(NamedTuple):
    """`ctx` is compared with its lists sorted: parallel iterations append in any order."""

    status: str
    result: Any
    ctx: dict[str, Any]
    error: str = ""


class Playbook(NamedTuple):
    name: str
    source: bytes
    payload: Callable[[int], dict[str, Any]]
    expected: Callable[[dict[str, Any]], Expected]


@cache
def compiled(source: bytes, edition: int = EDITION) -> Compiled:
    return compile_playbook(source, kinds=registry.specs(), edition=edition)


HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: sim/{name}}}
"""

CHAIN = """
workload: {x: 1}
workflow:
  - step: start
    tool: {kind: python, code: "-", args: {give: "{{ workload.x }}"}}
    next: {arcs: [{step: middle, args: {y: "{{ start + 1 }}"}}]}
  - step: middle
    tool:
      - {name: first, kind: python, code: "-", args: {give: "{{ args.y * 10 }}"}}
      - {name: second, kind: noop, args: {v: "{{ first + 1 }}"}}
      - {name: third, kind: python, code: "-", args: {give: "{{ _prev.v + 1 }}", takes: 0.2}}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: python, code: "-", args: {give: {total: "{{ start + middle }}"}}}
    next: {arcs: [{step: end}]}
  - step: end
"""

CHOICE = """
workload: {n: 0}
workflow:
  - step: start
    next:
      spec: {mode: exclusive}
      arcs:
        - {step: low, when: "{{ workload.n < 5 }}"}
        - {step: high}
  - step: low
    tool: {kind: python, code: "-", args: {give: low}}
  - step: high
    tool: {kind: python, code: "-", args: {give: high, takes: 1.0}}
"""

FAN = """
workload: {x: 1}
workflow:
  - step: start
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: a, args: {x: "{{ workload.x }}"}}
        - {step: b, when: "{{ true }}"}
        - {step: c}
        - {step: never, when: "{{ false }}"}
  - step: a
    tool:
      - name: work
        kind: python
        code: "-"
        args: {give: "{{ args.x }}", takes: 0.5}
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_ctx: {seen: {$append: a}, a: "{{ outcome.result }}"}}}}]
    next: {arcs: [{step: merge, args: {from_a: "{{ a }}"}}]}
  - step: b
    tool:
      - name: work
        kind: python
        code: "-"
        args: {give: 2}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: {$append: b}}}}}]}}
    next: {arcs: [{step: merge, args: {from_b: "{{ b }}"}}]}
  - step: c
    tool: {kind: python, code: "-", args: {give: 3, takes: 2.0}}
    next: {arcs: [{step: d}]}
  - step: d
    tool: {kind: noop, args: {v: 4}}
    next: {arcs: [{step: merge, args: {from_d: "{{ d.v }}"}}]}
  - step: never
    tool: {kind: noop}
    next: {arcs: [{step: merge}]}
  - step: merge
    tool: {kind: python, code: "-", args: {give: "{{ args }}"}}
"""

RETRY = """
workflow:
  - step: start
    tool:
      - name: flaky
        kind: python
        code: "-"
        args: {give: fine, fails: 2}
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: retry, attempts: 5, backoff: linear, delay: 1.5, set_ctx: {tries: {$add: 1}}}
              - else: {then: {do: continue}}
      - {name: then, kind: python, code: "-", args: {give: "{{ flaky }}!"}}
"""

PAGES = """
workload: {pages: 4}
workflow:
  - step: start
    tool:
      - name: init
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1, got: []}}}}]}}
      - name: fetch
        kind: http
        url: "http://pages.example/list"
        params: {page: "{{ iter.page }}", pages: "{{ workload.pages }}"}
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: retry, attempts: 9, delay: 0.3}
              - else: {then: {do: continue, set_iter: {got: {$append: "{{ outcome.result.data }}"}}}}
      - name: more
        kind: noop
        args: {v: "{{ iter.got | map(attribute='item') | list }}"}
        spec:
          policy:
            rules:
              - when: "{{ fetch.data.more }}"
                then: {do: jump, to: fetch, set_iter: {page: "{{ iter.page + 1 }}"}}
              - else: {then: {do: break}}
"""

HANDLED = """
workflow:
  - step: start
    tool: {kind: python, code: "-", args: {breaks: true}}
    next: {arcs: [{step: second, when: "{{ event.name == 'step.failed' }}", args: {why: "{{ event.error.kind }}"}}]}
  - step: second
    tool: {kind: python, code: "-", args: {give: "after {{ args.why }}"}}
"""

UNHANDLED = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: quick}, {step: slow}]}
  - step: quick
    tool: {kind: python, code: "-", args: {breaks: true, takes: 0.5}}
  - step: slow
    tool:
      - {name: one, kind: python, code: "-", args: {takes: 30.0}}
      - {name: two, kind: python, code: "-", args: {takes: 30.0}}
"""

DENIED = """
workload: {open: false}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: guarded}, {step: free}]}
  - step: guarded
    spec:
      policy:
        admit:
          rules: [{when: "{{ workload.open }}", then: {allow: true}}, {else: {then: {allow: false}}}]
    tool: {kind: python, code: "-", args: {give: in}}
  - step: free
    tool: {kind: python, code: "-", args: {give: free}}
"""

CYCLE = """
workload: {rounds: 3}
workflow:
  - step: start
    tool:
      - name: work
        kind: python
        code: "-"
        args: {give: "{{ ctx.n | default(0) }}"}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}
    next: {arcs: [{step: check}]}
  - step: check
    tool: {kind: noop, args: {v: "{{ ctx.n }}"}}
    next:
      spec: {mode: exclusive}
      arcs: [{step: start, when: "{{ ctx.n < workload.rounds }}"}, {step: end}]
  - step: end
"""

LONG = """
workload: {takes: 20.0}
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "-", args: {give: 1, takes: 0.1}}
      - {name: two, kind: python, code: "-", args: {give: "{{ one + 1 }}", takes: "{{ workload.takes }}"}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: python, code: "-", args: {give: "{{ start }}"}}
"""

SLOW = """
workload: {takes: 3.0}
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "-", args: {give: 1, takes: "{{ workload.takes }}"}}
      - {name: look, kind: http, url: "http://pages.example/now", params: {now: true}}
      - {name: again, kind: http, url: "http://pages.example/now", params: {now: true}}
      - name: two
        kind: python
        code: "-"
        args: {give: "{{ one + 1 }}", takes: "{{ workload.takes }}", seen: "{{ [look.data.read, again.data.read] }}"}
      - {name: late, kind: http, url: "http://pages.example/now", params: {now: true}}
      - name: three
        kind: python
        code: "-"
        args: {give: "{{ two + 1 }}", takes: "{{ workload.takes }}", seen: "{{ late.data.read }}"}
      - {name: four, kind: python, code: "-", args: {give: "{{ three + 1 }}", takes: "{{ workload.takes }}"}}
"""

LARGE = """
workflow:
  - step: start
    tool: {kind: python, code: "-", args: {size: 140000}}
    next:
      spec: {mode: exclusive}
      arcs: [{step: each, when: "{{ start | length > 10 }}"}]
  - step: each
    loop: {in: "{{ start.data[:3] }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}"}}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, args: {v: "{{ start | length }}"}}
"""



def _done(result: Any, **ctx: Any) -> Expected:
    return Expected("completed", result, ctx)


def _parallel(payload: dict[str, Any]) -> Expected:
    items = payload["items"]
    results = [item * 2 + index for index, item in enumerate(items)]
    return _done([sum(results), results], total=sum(results), all=sorted(items))


def _fan(payload: dict[str, Any]) -> Expected:
    return _done({"from_a": payload["x"], "from_b": 2, "from_d": 4}, seen=["a", "b"], a=payload["x"])


def _pages(payload: dict[str, Any]) -> Expected:
    return _done({"v": [f"item {page}" for page in range(1, payload["pages"] + 1)]})


def _sequential(payload: dict[str, Any]) -> Expected:
    last = sum(payload["items"])
    return _done({"v": last}, last=last)


def _calls(payload: dict[str, Any]) -> Expected:
    x = payload["x"]
    return _done({"v": x + (x + 1) * 10 + 2 + x}, kind="broken")


def _family(payload: dict[str, Any]) -> Expected:
    return _done([f"{'low' if item < 5 else 'high'}{item}" for item in payload["items"]])


def _saga(payload: dict[str, Any]) -> Expected:
    odd, even = sorted((payload["x"], payload["x"] + 1), key=lambda x: x % 2 == 0)
    return Expected("failed", None, {"undone": [even], "broken": [odd]}, "broken")


def _cursor(payload: dict[str, Any]) -> Expected:
    rows = payload["rows"]
    return _done({"v": rows, "all": True}, **({"seen": list(range(rows))} if rows else {}))


def _failures(payload: dict[str, Any]) -> Expected:
    return _done({"v": len(payload["items"]) // 2})


def _always(expected: Expected) -> Callable[[dict[str, Any]], Expected]:
    return lambda _payload: expected


def _none(_k: int) -> dict[str, Any]:
    return {}


def _nested(payload: dict[str, Any]) -> Expected:
    found = [[[hotel * 10 + room + place for room in range(hotel)] for hotel in city]
             for place, city in enumerate(payload["cities"])]
    rooms = sum(hotel for city in payload["cities"] for hotel in city)
    return _done(found, **({"rooms": rooms} if rooms else {}))


def _book(
    name: str, body: str, payload: Callable[[int], dict[str, Any]], expected: Callable[[dict[str, Any]], Expected]
) -> Playbook:
    return Playbook(f"sim/{name}", (HEAD.format(name=name) + body).encode(), payload, expected)


BOOKS = [
    _book("chain", CHAIN, lambda k: {"x": k}, lambda p: _done({"total": p["x"] + (p["x"] + 1) * 10 + 2})),
    _book("choice", CHOICE, lambda k: {"n": k}, lambda p: _done("low" if p["n"] < 5 else "high")),
    _book("fan", FAN, lambda k: {"x": k}, _fan),
    _book("parallel", PARALLEL, lambda k: {"items": list(range(k, k + 3 + k % 5))}, _parallel),
    _book("sequential", SEQUENTIAL, lambda k: {"items": [k, 1, 2]}, _sequential),
    _book("best_effort", BEST_EFFORT, lambda k: {"items": list(range(k % 6))}, _failures),
    _book("fail_fast", FAIL_FAST, _none, _always(_done("rescued"))),
    _book("nested", NESTED, lambda k: {"cities": [[k % 4, 2], [], [1]]}, _nested),
    _book("tolerant", TOLERANT, _none, _always(_done({"v": 2}))),
    _book("stops", STOPS, _none, _always(_done([True, [0, 1, 2, 3]]))),
    _book("local", local(PARALLEL), lambda k: {"items": list(range(k, k + 3 + k % 5))}, _parallel),
    _book("local_in_order", local(SEQUENTIAL), lambda k: {"items": [k, 1, 2]}, _sequential),
    _book("local_stops", local(STOPS), _none, _always(_done([True, [0, 1, 2, 3]]))),
    _book("local_fails", local(FAIL_FAST), _none, _always(_done("rescued"))),
    _book("cursor", CURSOR, lambda k: {"rows": k}, _cursor),
    _book("retry", RETRY, _none, _always(_done("fine!", tries=2))),
    _book("pages", PAGES, lambda k: {"pages": 1 + k % 6}, _pages),
    _book("handled", HANDLED, _none, _always(_done("after broken"))),
    _book("unhandled", UNHANDLED, _none, _always(Expected("failed", None, {}, "broken"))),
    _book("denied", DENIED, lambda k: {"open": k > 9}, _always(_done("free"))),
    _book("cycle", CYCLE, lambda k: {"rounds": 1 + k % 4}, lambda p: _done({"v": p["rounds"]}, n=p["rounds"])),
    _book("long", LONG, lambda k: {"takes": 16.0 + k}, _always(_done(2))),
    _book("slow", SLOW, lambda k: {"takes": 2.0 + k / 4}, _always(_done(4))),
    _book("calls", CALLS, lambda k: {"x": k}, _calls),
    _book("family", FAMILY, lambda k: {"items": [k, 2, 7]}, _family),
    _book("naps", NAPS, lambda k: {"items": [1, 12 + k, 6, 6]}, lambda p: _done([2 * item for item in p["items"]])),
    _book("waits", WAITS, _none, _always(_done(2))),
    _book("patient", PATIENT, _none, _always(_done("fine"))),
    _book("joins", JOINS, _none, _always(_done({"v": [3, 1, 1]}, alone=3, first=1, pair=1))),
    _book("saga", SAGA, lambda k: {"x": k}, _saga),
    _book("places", PLACES, lambda k: {"items": list(range(k % 6))}, lambda p: _done({"v": p["items"]})),
    _book("alone", ONE_AT_A_TIME, _none, _always(_done("alone"))),
    _book("large", LARGE, _none, _always(_done({"v": 14000}))),
]
