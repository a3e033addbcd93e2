"""Playbooks in the words of today, with what their tools answer."""

from shared.events.outcome import ok
from tests.conformance.stand.formal_books import Book

PAGE = ok({"status_code": 200, "headers": {}, "data": {"items": [1], "n": 5}}, shape="http", http={"status": 200})
WORDS = """
workbook:
  - name: w
    tool: {kind: noop, input: {m: null, x: "{{ m }}"}, set: {ctx.z: "{{ output.m }}"}}
    sink: {tool: noop, args: {z: "{{ result.m }}"}}
"""

BOOKS: dict[str, Book] = {
    "arc_set": Book("""
- step: start
  tool: {kind: noop, args: {n: 1}}
  next:
    spec: {on_no_match: fail}
    arcs: [{step: e, when: "{{ output.n == 1 }}", set: {ctx.k: "{{ output.n }}"}, args: {z: "{{ output.n }}"}}]
- {step: e, tool: {kind: noop, args: {k: "{{ ctx.k }}", z: "{{ z }}"}}}
"""),
    "inclusive": Book("""
- step: start
  tool: {kind: noop, args: {n: 1}}
  next:
    spec: {mode: inclusive, on_no_match: fail}
    arcs: [{step: e, when: "{{ output.n == 1 }}"}, {step: f, cond: result.n == 1}]
- {step: e, tool: {kind: noop}}
- {step: f, tool: {kind: noop}}
"""),
    "tasks": Book("""
- step: start
  input: {who: "{{ workload.who }}"}
  tool:
    - name: ask
      kind: http
      url: "http://x/{{ who }}"
      form: {a: "{{ who }}"}
      retry_on_status: [503]
      set: {iter.f: "{{ output.data.items[0] }}"}
      spec: {policy: {rules: [{when: "{{ output.n == 9 }}", then: {do: fail}}, {else: {do: continue}}]}}
    - name: b
      kind: noop
      args: {how: "{{ output.status }}", n: "{{ output.n }}", f: "{{ iter.f }}", t: "{{ now() }}"}
    - name: c
      kind: noop
      set: {ctx.c: "{{ start.results.b.n }}"}
      spec:
        policy:
          rules:
            - {when: "{{ start.n == 1 and ctx.x | default(0) == 1 }}", then: {do: jump, to: previous}}
            - else: {then: {do: continue}}
  next: {arcs: [{step: e, when: "{{ start.results.ask.data.n == 5 }}"}]}
- step: e
  tool: {kind: noop, args: {k: "{{ start.results.ask.data.n }}", r: "{{ result }}", j: "{{ job.execution_id }}"}}
""", {"ask": [PAGE]}, payload={"who": "a"}),
    "workbook": Book("""
- step: start
  args: {q: "{{ workload.n }}"}
  tool: {kind: workbook, name: w, input: {m: "{{ q }}"}}
  vars: {v: "{{ result.m }}"}
  next: e
- step: e
  tool: {kind: noop, args: {v: "{{ vars.v }}"}}
  sink:
    - {tool: noop, args: {v: "{{ result.v }}"}, when: "{{ result.v == 2 }}"}
    - {tool: noop, args: {v: "{{ this.data.v }}"}}
""", before=WORDS, payload={"n": 2}),
    "loop": Book("""
- step: start
  args: {q: "{{ workload.n }}"}
  loop: {in: "{{ workload.all }}", iterator: x, mode: async, max_in_flight: "{{ workload.n }}"}
  tool: {kind: noop, args: {x: "{{ x }}", q: "{{ q }}"}}
  case:
    - when: "{{ event.name == 'call.done' and result.x == 1 }}"
      then: {set: {ctx.one: "{{ result.x }}"}, sink: {tool: noop, args: {x: "{{ result.x }}"}}}
    - when: "{{ event.name == 'loop.done' }}"
      then: {next: [{step: e, args: {n: "{{ start.count }}"}}, {step: f}]}
- {step: e, tool: {kind: noop, args: {n: "{{ n }}"}}}
- {step: f, tool: {kind: noop}}
""", payload={"n": 2, "all": [1, 2]}),
    "sugar": Book("""
- step: start
  tool:
    - {name: a, kind: noop, args: {n: 1}}
    - choose:
        - {when: "{{ output.n == 1 }}", then: [{name: b, kind: noop, args: {g: "{{ output.n }}"}}]}
        - else: [{kind: noop}]
    - until:
        when: "{{ (iter.n | default(0)) > 1 }}"
        do: [{name: d, kind: noop, set: {iter.n: "{{ (iter.n | default(0)) + 1 }}"}}]
    - {name: p, kind: python, code: "result = {{ workload.n }}"}
""", payload={"n": 2}),
}  # fmt: skip
