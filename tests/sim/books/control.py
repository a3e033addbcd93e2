"""Playbooks that wait, call others, meet in joins and undo what they did."""

CALLS = """
workload: {x: 1}
workflow:
  - step: start
    tool:
      - {name: before, kind: python, code: "-", args: {give: "{{ workload.x }}"}}
      - {name: call, kind: playbook, path: sim/chain, args: {x: "{{ before }}"}}
      - {name: after, kind: python, code: "-", args: {give: "{{ call.total + before }}"}}
    next: {arcs: [{step: last}]}
  - step: last
    tool:
      kind: playbook
      path: sim/unhandled
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {kind: "{{ outcome.error.error.kind }}"}}}}]}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, args: {v: "{{ start }}"}}
"""

FAMILY = """
workload: {items: []}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool:
      - {name: one, kind: python, code: "-", args: {give: "{{ iter.item }}"}}
      - {name: call, kind: playbook, path: sim/choice, args: {n: "{{ one }}"}}
      - {name: two, kind: python, code: "-", args: {give: "{{ call }}{{ iter.item }}"}}
"""

NAPS = """
workload: {items: []}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool:
      - {name: one, kind: python, code: "-", args: {give: "{{ iter.item }}"}}
      - {name: nap, kind: wait, for: "{{ iter.item }}s"}
      - {name: two, kind: python, code: "-", args: {give: "{{ one * 2 }}"}}
"""

WAITS = """
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "-", args: {give: 1}}
      - {name: sleep, kind: wait, for: 20s}
      - {name: two, kind: python, code: "-", args: {give: "{{ one + 1 }}"}}
"""

PATIENT = """
workflow:
  - step: start
    tool:
      kind: python
      code: "-"
      args: {give: fine, fails: 2}
      spec: {policy: {rules: [{when: "{{ outcome.error }}", then: {do: retry, attempts: 4, delay: 15}}]}}
"""

JOINS = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
  - step: a
    tool: {kind: python, code: "-", args: {give: a}}
    next: {spec: {mode: inclusive}, arcs: [{step: alone}, {step: first}, {step: pair}, {step: many}]}
  - step: b
    tool: {kind: python, code: "-", args: {give: b}}
    next: {spec: {mode: inclusive}, arcs: [{step: alone}, {step: first}, {step: pair}, {step: many}]}
  - step: c
    tool: {kind: python, code: "-", args: {give: c}}
    next: {spec: {mode: inclusive}, arcs: [{step: alone}, {step: first}, {step: pair}, {step: many}]}
  - step: alone
    spec: {policy: {admit: {join: each}}}
    tool:
      kind: python
      code: "-"
      args: {give: alone}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {alone: {$add: 1}}}}}]}}
    next: {arcs: [{step: last}]}
  - step: first
    spec: {policy: {admit: {join: any}}}
    tool:
      kind: python
      code: "-"
      args: {give: first}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {first: {$add: 1}}}}}]}}
    next: {arcs: [{step: last}]}
  - step: pair
    spec: {policy: {admit: {join: 2}}}
    tool:
      kind: python
      code: "-"
      args: {give: pair}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {pair: {$add: 1}}}}}]}}
    next: {arcs: [{step: last}]}
  - step: many
    spec: {policy: {admit: {join: 4}}}
    tool:
      kind: python
      code: "-"
      args: {give: many}
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {many: {$add: 1}}}}}]}}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, args: {v: ["{{ ctx.alone }}", "{{ ctx.first }}", "{{ ctx.pair }}"]}}
"""

SAGA = """
workload: {x: 1}
workflow:
  - step: start
    spec: {policy: {compensate: undo}}
    tool: {kind: python, code: "-", args: {give: "{{ workload.x }}"}}
    next: {spec: {mode: inclusive}, arcs: [{step: side}, {step: pay, args: {id: "{{ start + 1 }}"}}]}
  - step: side
    tool: {kind: python, code: "-", args: {give: side, takes: 0.3}}
    next: {arcs: [{step: bad}]}
  - step: pay
    spec: {policy: {compensate: {step: undo, args: {id: "{{ args.id }}"}}}}
    tool: {kind: python, code: "-", args: {give: "{{ args.id }}", takes: 0.2}}
    next: {arcs: [{step: bad}]}
  - step: bad
    tool: {kind: python, code: "-", args: {breaks: true}}
  - step: undo
    tool:
      - {name: wait, kind: wait, for: 3s}
      - name: note
        kind: python
        code: "-"
        args: {give: "{{ compensates }}", takes: 0.5, breaks: "{{ compensates % 2 == 1 }}"}
        spec:
          policy:
            rules:
              - when: "{{ outcome.error }}"
                then: {do: fail, set_ctx: {broken: {$append: "{{ compensates }}"}}}
              - else: {then: {do: continue, set_ctx: {undone: {$append: "{{ compensates }}"}}}}
"""
