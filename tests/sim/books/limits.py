"""Playbooks that wait for places: of a step, of iterations by their key, and of the execution itself."""

PLACES = """
workload: {items: [1, 2, 3, 4]}
workflow:
  - step: start
    spec: {policy: {limits: {key: "door", max: 1}}}
    tool: {kind: python, code: "-", args: {give: 1, takes: 0.4}}
    next: {arcs: [{step: each}]}
  - step: each
    spec: {policy: {limits: {key: "side/{{ iter.item % 2 }}", max: 2, rate: "3/s"}}}
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", takes: 0.5}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, args: {v: "{{ each.results }}"}}
"""

ONE_AT_A_TIME = """
executor: {spec: {policy: {limits: {max: 1}, priority: 7}}}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: item, spec: {mode: parallel}}
    tool: {kind: python, code: "-", args: {give: "{{ iter.item }}", takes: 0.6}}
    next: {arcs: [{step: pause}]}
  - step: pause
    spec: {policy: {limits: {key: "door", max: 1}}}
    tool: {kind: wait, for: 2s}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: python, code: "-", args: {give: alone}}
"""
