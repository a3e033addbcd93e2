"""Playbooks with loops: the two modes, what becomes of failures, loops within loops, and a condition to stop."""

PARALLEL = """
workload: {items: [1, 2, 3]}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool:
      - {name: first, kind: python, code: "-", args: {give: "{{ iter.item * 2 }}"}}
      - name: second
        kind: python
        code: "-"
        args: {give: "{{ first + iter.index }}", takes: 0.3}
        spec:
          policy:
            rules:
              - else:
                  then:
                    do: continue
                    set_ctx: {total: {$add: "{{ outcome.result }}"}, all: {$append: "{{ iter.item }}"}}
    next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}"}]}
  - step: after
    tool: {kind: python, code: "-", args: {give: ["{{ ctx.total }}", "{{ start.results }}"]}}
"""

SEQUENTIAL = """
workload: {items: [5, 6, 7]}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: sequential}}
    tool:
      - name: work
        kind: python
        code: "-"
        args: {give: "{{ (ctx.last | default(0)) + iter.item }}"}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {last: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, args: {v: "{{ ctx.last }}"}}
"""

BEST_EFFORT = """
workload: {items: [0, 1, 2, 3, 4]}
workflow:
  - step: start
    spec: {policy: {failure: {mode: best_effort}}}
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", breaks: "{{ iter.item % 2 == 1 }}"}}
    next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}", args: {failed: "{{ event.payload.failed }}"}}]}
  - step: after
    tool: {kind: noop, args: {v: "{{ args.failed }}"}}
"""

FAIL_FAST = """
workload: {items: [0, 1, 2, 3, 4, 5, 6, 7]}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", breaks: "{{ iter.item == 2 }}", takes: 0.7}}
    next: {arcs: [{step: rescue, when: "{{ event.name == 'step.failed' }}"}]}
  - step: rescue
    tool: {kind: python, code: "-", args: {give: rescued}}
"""

NESTED = """
workload: {cities: [[1, 2], [], [3]]}
workflow:
  - step: start
    loop:
      in: "{{ workload.cities }}"
      iterator: city
      spec: {mode: parallel, max_in_flight: 3}
      loop: {in: "{{ iter.city }}", iterator: hotel}
    tool:
      - {name: visit, kind: python, code: "-", args: {give: "{{ hotel }}"}}
      - name: rooms
        kind: python
        code: "-"
        loop: {in: "{{ range(visit) | list }}", iterator: room}
        args: {give: "{{ iter.parent.hotel * 10 + iter.room + iter.parent.parent.index }}", takes: 0.2}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {rooms: {$add: 1}}}}}]}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: python, code: "-", args: {give: "{{ start.results }}"}}
"""

TOLERANT = """
workload: {items: [0, 1, 2, 3, 4, 5, 6, 7]}
workflow:
  - step: start
    spec: {policy: {failure: {tolerate: "25%"}}}
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", breaks: "{{ iter.item in [2, 5] }}"}}
    next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}", args: {failed: "{{ event.payload.failed }}"}}]}
  - step: after
    tool: {kind: noop, args: {v: "{{ args.failed }}"}}
"""

STOPS = """
workload: {items: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}
workflow:
  - step: start
    loop:
      in: "{{ workload.items }}"
      iterator: item
      spec: {stop_when: "{{ last >= 3 and count == 4 }}"}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", takes: 0.2}}
    next: {arcs: [{step: after, args: {stopped: "{{ event.payload.stopped }}"}}]}
  - step: after
    tool: {kind: python, code: "-", args: {give: ["{{ args.stopped }}", "{{ start.results }}"]}}
"""

CURSOR = """
workload: {rows: 5}
workflow:
  - step: start
    loop:
      cursor: {kind: postgres, connection: "postgres://", claim: "CLAIM {{ workload.rows }} {{ claim.size }}", frame: 3}
      iterator: row
      spec: {mode: parallel, max_in_flight: 2}
    tool:
      kind: python
      code: "-"
      args: {give: "{{ row.k }}", takes: 0.2}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: {$union: "{{ outcome.result }}"}}}}}]}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, args: {v: "{{ ctx.seen | default([]) | length }}", all: "{{ start.count >= workload.rows }}"}}
"""


def local(book: str) -> str:
    """The same loop, all of it on one worker."""
    found = book.replace(", spec: {mode", ", spec: {policy: {exec: local}, mode")
    found = found.replace("spec: {stop_when", "spec: {policy: {exec: local}, stop_when")
    assert found != book
    return found
