"""The YAML fragments of the five documents, each in the smallest playbook around it. What a document leaves open
(`{{ … }}`, `...`, names, addresses) is filled in; the keys and their order are the document's."""

from typing import Any

from msgspec import Struct

from tests.conformance.stand.lab import playbook

END = "- {step: after, tool: {kind: noop, args: {got: '{{ args }}'}}}\n"
PAGE = {"data": [7], "paging": {"page": 1, "hasMore": False}}
RETRY = "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"


class Fragment(Struct, frozen=True):
    """`steps` are those that ran; `result` is the payload of the last one. `failing` answers of the API come first."""

    source: str
    steps: tuple[str, ...]
    result: Any
    failing: int = 0


def _tool(tool: str) -> str:
    return f"- step: start\n  tool:\n{tool}"


RULES = """    - name: first
      kind: http
      url: "{{ workload.api_url }}/page"
      spec:
        policy:
          mode: exclusive
          on_unmatched: continue
          before: []
          after: []
          finally: []
          rules:
            - when: "{{ outcome.status == 'error' }}"
              then:
                do: retry
                attempts: 5
                backoff: BACKOFF
                delay: 0.01
            - when: "{{ outcome.http.status == 200 }}"
              then:
                do: jump
                to: some_label
                set_iter: { seen: "{{ outcome.result.data.data }}" }
                set_ctx: { status: "{{ outcome.http.status }}" }
            - else:
                then:
                  do: fail
    - {name: skipped, kind: noop, args: {skipped: true}}
    - name: some_label
      kind: noop
      args: {seen: "{{ iter.seen }}", status: "{{ ctx.status }}"}
      spec: {policy: {rules: [{else: {then: {do: break}}}]}}
    - {name: beyond, kind: noop}
"""
SEEN = {"seen": [7], "status": 200}

CANONICAL: dict[str, Fragment] = {
    "V10 2.1 keychain": Fragment(playbook(
        "- step: start\n  tool: {kind: http, url: '{{ workload.api_url }}/page', "
        "headers: {X-Token: '{{ keychain.openai_token.value }}'}}\n",
        root="keychain:\n- name: openai_token\n  kind: secret_manager\n- name: pg_k8s\n  kind: postgres_credential\n"),
        ("start",), PAGE),
    "V10 5.2.1 admission": Fragment(playbook("""
        - step: start
          next: {spec: {mode: inclusive}, arcs: [{step: open, args: {n: 1}}, {step: closed, args: {n: 0}}]}
        - step: open
          spec: &gate
            policy:
              admit:
                mode: exclusive
                rules:
                  - when: "{{ args.n == 1 }}"
                    then: { allow: true }
                  - else:
                    then: { allow: false }
          tool: {kind: noop, args: {n: "{{ args.n }}"}}
        - {step: closed, spec: *gate, tool: {kind: noop}}
        """), ("start", "open"), {"n": 1}),
    "V10 5.4 task policy": Fragment(
        playbook(_tool(RULES.replace("BACKOFF", "exponential"))), ("start",), SEEN, failing=2),
    "V10 5.5 router": Fragment(playbook("""
        - step: start
          tool: {kind: noop, args: {n: 3}}
          next:
            spec:
              mode: exclusive
              policy: {}
            arcs:
              - step: never
                when: "{{ event.result.n == 4 }}"
              - step: some_step
                when: "{{ event.result.n == 3 }}"
                args: { n: "{{ event.result.n }}" }
        - {step: some_step, tool: {kind: noop, args: {got: "{{ args.n }}"}}}
        - {step: never, tool: {kind: noop}}
        """), ("start", "some_step"), {"got": 3}),
    "V10 7.1 named tasks": Fragment(playbook(_tool("""
    - name: init_iter
      kind: noop
      spec:
        policy:
          rules:
            - else:
                then: { do: continue, set_iter: { page: 1 } }
    - name: fetch_page
      kind: http
      method: GET
      url: "{{ workload.api_url }}/page?page={{ iter.page }}"
      spec:
        policy:
          rules:
            - when: "{{ outcome.status == 'error' }}"
              then: { do: retry, attempts: 5 }
            - else:
                then: { do: continue }
""")), ("start",), PAGE, failing=2),
    "V10 7.2 unnamed tasks": Fragment(playbook(_tool("""
    - kind: http
      url: "{{ workload.api_url }}/page"
    - kind: python
      args: {rows: "{{ task_0.data.data }}", same: "{{ _prev.data.data }}"}
      code: "result = rows + same"
""")), ("start",), [7, 7]),
    "V10 7.3 single tool": Fragment(playbook(_tool("""
    kind: http
    method: GET
    url: "{{ api_url }}/page"
""")), ("start",), PAGE),
    "DSL2 1.2 root": Fragment("""
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: example
  path: examples/example
  version: "2.0"
  description: Example playbook
keychain:
  - name: pg_k8s
    kind: postgres_credential
executor:
  kind: distributed
  spec:
    pool: default
    policy:
      results:
        reference_first: true
      limits:
        max_payload_bytes: 1048576
workload:
  api_url: "https://example.com"
workflow:
  - step: start
    tool: {kind: noop, args: {path: "{{ workload.api_url is defined }}"}}
workbook:
  tasks: {}
""", ("start",), {"path": True}),
    "DSL2 4.1 step": Fragment(playbook("""
        - step: start
          desc: the canonical shape
          spec:
            policy:
              admit:
                mode: exclusive
                rules:
                  - when: "{{ workload.api_url is defined }}"
                    then: { allow: true }
                  - else:
                    then: { allow: false }
          loop:
            spec:
              mode: parallel
              max_in_flight: 10
              policy:
                exec: distributed
            in: "{{ [1, 2] }}"
            iterator: number
          tool:
            - task_label_1: { kind: noop, args: {n: "{{ iter.number }}"} }
            - task_label_2: { kind: noop, args: {n: "{{ _prev.n * 10 }}"} }
          next:
            spec:
              mode: exclusive
              policy: {}
            arcs:
              - step: next_step
                when: "{{ event.name == 'loop.done' }}"
                args: { all: "{{ event.result }}" }
        - {step: next_step, tool: {kind: noop, args: {all: "{{ args.all }}"}}}
        """), ("start", "next_step"), {"all": [{"n": 10}, {"n": 20}]}),
    "DSL2 5.1 labelled task": Fragment(playbook(_tool(f"""
    - fetch_page:
        kind: http
        spec:
          timeout: {{ connect: 5, read: 15 }}
          policy:
            rules:
              - when: "{RETRY}"
                then: {{ do: retry, attempts: 10, backoff: exponential, delay: 0.01 }}
              - else:
                  then: {{ do: continue }}
        method: GET
        url: "{{{{ workload.api_url }}}}/page"
        params: {{ page: 1 }}
""")), ("start",), PAGE, failing=3),
    "DSL2 6.2 rules": Fragment(playbook(_tool(RULES.replace("BACKOFF", "linear"))), ("start",), SEEN, failing=1),
    "PIPE rules": Fragment(playbook(_tool(RULES.replace("BACKOFF", "none"))), ("start",), SEEN, failing=4),
    "DSL2 7.1 loop": Fragment(playbook("""
        - step: start
          loop:
            spec:
              mode: sequential
              max_in_flight: 10
              policy:
                exec: distributed
            in: "{{ workload.items }}"
            iterator: item
          tool: {kind: noop, args: {item: "{{ item }}", at: "{{ iter.index }}"}}
        """, workload="{items: [a, b]}"), ("start",), [{"item": "a", "at": 0}, {"item": "b", "at": 1}]),
}


def _loop(mode: str) -> str:
    return playbook(f"""
        - step: start
          loop:
            in: "{{{{ workload.items }}}}"
            iterator: current_item
            mode: {mode}
          tool:
            kind: python
            args: {{n: "{{{{ current_item }}}}", at: "{{{{ loop_index }}}}"}}
            code: "result = [n, at]"
        """, workload="{items: [5, 6]}")


FORMAL: dict[str, Fragment] = {
    "FX 5.2 loop in order": Fragment(_loop("sequential"), ("start",), [[5, 0], [6, 1]]),
    "FX 5.2 loop in parallel": Fragment(_loop("parallel"), ("start",), [[5, 0], [6, 1]]),
    "FS 6.1 loop": Fragment(_loop("async"), ("start",), [[5, 0], [6, 1]]),
    "FS 4 step": Fragment(playbook("""
        - step: start
          desc: every key of the schema
          args: {who: world}
          tool:
            kind: python
            args: {greeting: "hello {{ who }}"}
            code: "result = {'said': greeting}"
          vars: {said: "{{ result.said }}"}
          case:
            - when: "{{ event.name == 'call.done' }}"
              then:
                next:
                  - step: chosen
                    args: {said: "{{ result.said }}"}
          next:
            - step: fallback
          sink:
            tool: {kind: noop}
            args: {kept: "{{ result.said }}"}
          retry: {max_attempts: 2, initial_delay: 0.01}
        - {step: chosen, tool: {kind: noop, args: {said: "{{ args.said }}", kept: "{{ vars.said }}"}}}
        - {step: fallback, tool: {kind: noop}}
        """), ("start", "chosen"), {"said": "hello world", "kept": "hello world"}),
    "FS 5 workbook": Fragment(playbook("""
        - step: start
          tool:
            kind: workbook
            name: fetch_weather
            args: {city: Oslo}
        """, root="""
        workbook:
          - name: fetch_weather
            tool:
              kind: http
              method: GET
              url: "{{ workload.api_url }}/page"
              params:
                city: "{{ city }}"
        """), ("start",), PAGE),
    "FS 7.1 retry_when": Fragment(playbook("""
        - step: start
          tool: {kind: http, url: "{{ workload.api_url }}/page"}
          retry:
            max_attempts: 5
            initial_delay: 0.01
            backoff_multiplier: 1.5
            retry_when: "{{ status_code == 503 }}"
        """), ("start",), PAGE, failing=3),
    "FS 7.1 stop_when": Fragment(playbook("""
        - step: start
          tool: {kind: http, url: "{{ workload.api_url }}/page"}
          retry:
            max_attempts: 5
            initial_delay: 0.01
            backoff_multiplier: 1
            stop_when: "{{ success and data.data == [7] }}"
        """), ("start",), PAGE, failing=2),
    "FS 8.1 case": Fragment(playbook("""
        - step: start
          tool: {kind: noop, args: {n: 1}}
          case:
            - when: "{{ response.n == 1 }}"
              then:
                next:
                  - step: after
                    args: {n: "{{ result.n }}"}
                sink: {tool: {kind: noop}, args: {n: "{{ result.n }}"}}
                set: {kept: "{{ result.n }}"}
        """ + END), ("start", "after"), {"got": {"n": 1}}),
    "FS 9.1 next as a word": Fragment(playbook(f"- step: start\n  tool: {{kind: noop}}\n  next: after\n{END}"),
                                      ("start", "after"), {"got": {}}),
    "FS 9.1 next as a list": Fragment(playbook("""
        - step: start
          tool: {kind: noop}
          next:
            - step: step_a
            - step: step_b
        - {step: step_a, tool: {kind: noop}, next: after}
        - {step: step_b, tool: {kind: noop}, next: after}
        """ + END), ("start", "step_a", "step_b", "after"), {"got": {}}),
    "FS 9.1 next with args": Fragment(playbook("""
        - step: start
          tool: {kind: noop, args: {value: 5}}
          next:
            - step: after
              args:
                key: "{{ start.value }}"
        """ + END), ("start", "after"), {"got": {"key": 5}}),
    "FS 9.2 case instead": Fragment(playbook("""
        - step: start
          tool: {kind: noop, args: {n: 1}}
          case:
            - when: "{{ result.n == 1 }}"
              then:
                next:
                  - step: branch_a
          next:
            - step: default
        - {step: branch_a, tool: {kind: noop, args: {here: true}}}
        - {step: default, tool: {kind: noop}}
        """), ("start", "branch_a"), {"here": True}),
}
