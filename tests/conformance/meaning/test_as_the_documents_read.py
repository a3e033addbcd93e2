"""Short playbooks as a reader of FX and FS writes them, each with the end that the text promises, on a real stack."""

from typing import Any

import pytest
from msgspec import Struct

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook, rows
from tests.conformance.test_sub_playbooks import book
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")
LEFT_OUT = "- {step: never, tool: {kind: noop}}"


class Reads(Struct, frozen=True):
    """`steps` are those that ran, `stored` the rows its sinks left; `result` None: it is not looked at."""

    workflow: str
    steps: list[str]
    result: Any = None
    stored: list[str] = []
    status: str = "completed"
    payload: dict[str, Any] = {}
    root: str = ""
    refused: dict[str, int] = {}
    asked: int | None = None


BOOKS: dict[str, Reads] = {
    "FX 2.2: a step that only routes": Reads("""
        - step: start
          case:
            - {when: "{{ workload.n > 1 }}", then: {next: [{step: big}]}}
          next: [{step: small}]
        - {step: big, tool: {kind: noop, args: {is: big}}}
        - {step: small, tool: {kind: noop, args: {is: small}}}
        """, ["start", "big"], {"is": "big"}, payload={"n": 2}),
    "FX 3.2: names": Reads("""
        - step: start
          tool: {kind: python, code: "result = {'id': 5}"}
          vars: {id: "{{ result.id }}"}
          next: two
        - step: two
          tool:
            kind: python
            args: {a: "{{ vars.id }}", b: "{{ start.id }}", c: "{{ workload.c }}", d: "{{ execution_id | length }}"}
            code: "result = [a, b, c, d > 0]"
        """, ["start", "two"], [5, 5, "see", True], payload={"c": "see"}),
    "FX 5.4: each iteration stores on its own event": Reads("""
        - step: start
          loop: {in: [1, 2, 3], iterator: n}
          tool: {kind: python, args: {n: "{{ n }}"}, code: "result = {'n': n * 10}"}
          case:
            - when: "{{ event.name == 'call.done' and response.n != 20 }}"
              then: {sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ result.n }}"}}}
            - when: "{{ event.name == 'step.exit' }}"
              then: {sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "left {{ n }}"}}}
          next: end
        - {step: end}
        """, ["start", "end"], stored=["10", "left 1", "left 2", "30", "left 3"]),
    "FX 6.2: no policy matches, the step finishes": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/bad"}
          retry: [{when: "{{ error.status == 503 }}", then: {max_attempts: 3, initial_delay: 0}}]
          case: [{when: "{{ event.name == 'call.error' }}", then: {next: [{step: sorry}]}}]
        - {step: sorry, tool: {kind: noop}}
        """, ["start", "sorry"], refused={"/bad": 404}, asked=1),
    "FX 6.3: the numbers of calls": Reads("""
        - step: start
          tool: {kind: python, code: "result = {'n': 1}"}
          retry:
            - when: "{{ _retry.index < 3 }}"
              then:
                max_attempts: 9
                next_call: {args: {x: "{{ _retry.index }}"}}
                sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ _retry.index }}"}}
          next: end
        - {step: end}
        """, ["start", "end"], stored=["1", "2", "3"]),
    "FX 7.1: sink, set and next of one rule": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/a"}
          case:
            - when: "{{ event.name == 'call.done' and response.status_code == 200 }}"
              then:
                sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ result.paging.page }}"}}
                set: {page: "{{ result.paging.page }}"}
                next: [{step: good, args: {all: "{{ result.data }}"}}]
            - {when: "{{ event.name == 'call.error' }}", then: {next: [{step: never}]}}
        - {step: good, tool: {kind: noop, args: {all: "{{ args.all }}", page: "{{ vars.page }}"}}}
        """ + LEFT_OUT, ["start", "good"], {"all": [1, 2], "page": 1}, ["1"]),
    "FX 7.1: retry of a rule": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/bad"}
          case:
            - {when: "{{ event.name == 'call.error' and error.status == 503 }}",
               then: {retry: {max_attempts: 3, initial_delay: 0}, next: [{step: sorry}]}}
        - {step: sorry, tool: {kind: noop}}
        """, ["start", "sorry"], refused={"/bad": 503}, asked=3),
    "FX 7.1: the call's next stands, the exit still acts": Reads("""
        - step: start
          tool: {kind: python, code: "result = 1"}
          case:
            - {when: "{{ event.name == 'call.done' }}", then: {next: [{step: first}]}}
            - when: "{{ event.name == 'step.exit' }}"
              then:
                sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: left}}
                next: [{step: never}]
        - {step: first, tool: {kind: noop}}
        """ + LEFT_OUT, ["start", "first"], stored=["left"]),
    "FX 7.2: next when no rule matches": Reads("""
        - step: start
          tool: {kind: python, code: "result = {'n': 3}"}
          case: [{when: "{{ event.name == 'call.done' and response.n == 4 }}", then: {next: [{step: never}]}}]
          next: [{step: rest, args: {n: "{{ result.n }}"}}]
        - {step: rest, tool: {kind: noop, args: {n: "{{ n }}"}}}
        """ + LEFT_OUT, ["start", "rest"], {"n": 3}),
    "FX 7.2: an error that no rule matches does not go to next": Reads("""
        - step: start
          tool: {kind: python, code: "raise ValueError('no')"}
          case: [{when: "{{ event.name == 'call.done' }}", then: {next: [{step: never}]}}]
          next: never
        """ + LEFT_OUT, ["start"], status="failed"),
    "FX 7.3: a failure stores nothing": Reads("""
        - step: start
          tool: {kind: python, code: "raise ValueError('no')"}
          sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: never}}
          vars: {x: "{{ result }}"}
          case: [{when: "{{ event.name == 'call.error' }}", then: {next: [{step: after}]}}]
        - {step: after, tool: {kind: noop, args: {x: "{{ vars.x | default('unset') }}"}}}
        """, ["start", "after"], {"x": "unset"}),
    "FS 3.2: workload rendered, payload merged deep": Reads("""
        - {step: start, tool: {kind: noop, args: {url: "{{ workload.api.url }}", deep: "{{ workload.api.deep }}"}}}
        """, ["start"], {"url": "http://host/v1", "deep": {"a": 1, "b": 3}},
        payload={"api": {"deep": {"b": 3}}}),
    "FS 3.4: args, loop, tool, result, vars, routing, sink": Reads("""
        - step: start
          args: {items: "{{ workload.many }}", factor: 3}
          loop: {in: "{{ items }}", iterator: item}
          tool: {kind: python, args: {item: "{{ item }}", factor: "{{ factor }}"}, code: "result = item * factor"}
          vars: {total: "{{ result | sum }}"}
          case: [{when: "{{ event.name == 'step.exit' and vars.total == 9 }}", then: {next: [{step: after}]}}]
          sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ result }}"}}
        - {step: after, tool: {kind: noop, args: {total: "{{ vars.total }}", each: "{{ start }}"}}}
        """, ["start", "after"], {"total": 9, "each": [3, 6]}, ["3", "6"], payload={"many": [1, 2]}),
    "FS 5: a workbook task with its sink": Reads("""
        - step: start
          tool: {kind: workbook, name: greet, args: {who: Ann}}
          next: end
        - {step: end}
        """, ["start", "end"], stored=["hello Ann"], root="""
        workbook:
          - name: greet
            tool: {kind: python, args: {who: nobody}, code: "result = 'hello ' + who"}
            sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ result }}"}}
        """),
    "FS 6: the index, and results in order in any mode": Reads("""
        - step: start
          loop: {in: "{{ workload.many }}", iterator: item, mode: async}
          tool: {kind: noop, args: {at: "{{ loop_index }}", item: "{{ item }}"}}
          next: [{step: after}]
        - {step: after, tool: {kind: noop, args: {all: "{{ start }}"}}}
        """, ["start", "after"], {"all": [{"at": 0, "item": "a"}, {"at": 1, "item": "b"}]},
        payload={"many": ["a", "b"]}),
    "FS 6.2: what is no list": Reads("""
        - {step: start, loop: {in: "{{ workload.many }}", iterator: item}, tool: {kind: noop}}
        """, ["start"], status="failed", payload={"many": 7}),
    "FS 7.2: until stop_when, or max_attempts": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/a"}
          retry: {max_attempts: 4, initial_delay: 0, stop_when: "{{ attempt == 3 and status_code == 200 and success }}"}
          next: two
        - step: two
          tool: {kind: http, url: "{{ workload.url }}/a"}
          retry: {max_attempts: 2, initial_delay: 0, stop_when: "{{ data.paging.page == 9 }}"}
          next: end
        - {step: end}
        """, ["start", "two", "end"], asked=5),
    "FS 7.2: only what retry_when says": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/bad"}
          retry: {max_attempts: 3, initial_delay: 0, retry_when: "{{ status_code == 503 and attempt < max_attempts }}"}
          case:
            - {when: "{{ event.name == 'call.error' and error.status == 503 }}", then: {next: [{step: sorry}]}}
        - {step: sorry, tool: {kind: noop}}
        """, ["start", "sorry"], refused={"/bad": 503}, asked=3),
    "FS 8.3: result, this and response": Reads("""
        - step: start
          tool: {kind: http, url: "{{ workload.url }}/a"}
          case:
            - when: "{{ event.name == 'step.exit' and response.status_code == 200 and response.data.paging.page == 1 }}"
              then:
                set: {rows: "{{ result.data }}", status: "{{ this.status }}", code: "{{ this.status_code }}",
                      same: "{{ this.data.data == result.data }}"}
                next: [{step: after}]
        - {step: after, tool: {kind: noop, args: {a: "{{ vars.rows }}", b: "{{ vars.status }}", c: "{{ vars.code }}",
                                                  d: "{{ vars.same }}"}}}
        """, ["start", "after"], {"a": [1, 2], "b": "ok", "c": 200, "d": True}),
    "FS 9.1: several steps, each with its args": Reads("""
        - step: start
          tool: {kind: python, code: "result = {'n': 1}"}
          case:
            - when: "{{ event.name == 'step.exit' }}"
              then: {next: [{step: left, args: {n: "{{ result.n }}"}}, {step: right, args: {n: 2}}]}
        - {step: left, tool: {kind: noop, args: {n: "{{ n }}"}}, next: both}
        - {step: right, tool: {kind: noop, args: {n: "{{ n }}"}}, next: both}
        - {step: both, tool: {kind: noop, args: {sum: "{{ left.n + right.n }}"}}}
        """, ["start", "start_case_1", "left", "right", "both"], {"sum": 3}),
    "FS 10.1: a sink that is skipped": Reads("""
        - step: start
          tool: {kind: python, code: "result = [1, 2]"}
          sink:
            tool: {kind: postgres, auth: pg_k8s, table: kept}
            args: {what: "{{ result | length }}"}
            when: "{{ result | length > 2 }}"
          next: end
        - {step: end}
        """, ["start", "end"]),
    "FS 11: vars of one step in all that follow": Reads("""
        - step: start
          tool: {kind: postgres, auth: pg_k8s, query: "SELECT 3 AS id, 'c@d' AS email"}
          vars: {id: "{{ result[0].id }}", email: "{{ result[0].email }}"}
          next: two
        - {step: two, tool: {kind: noop}, next: three}
        - {step: three, tool: {kind: noop, args: {id: "{{ vars.id }}", email: "{{ vars.email }}"}}}
        """, ["start", "two", "three"], {"id": 3, "email": "c@d"}),
    "FS 4.2: the iterator as a kind": Reads("""
        - step: start
          tool:
            kind: iterator
            collection: "{{ workload.many }}"
            element: one
            tool: {kind: python, args: {one: "{{ one }}"}, code: "result = one + 1"}
          vars: {last: "{{ result[-1] }}"}
          next: after
        - {step: after, tool: {kind: noop, args: {last: "{{ vars.last }}"}}}
        """, ["start", "after"], {"last": 3}, payload={"many": [1, 2]}),
    "FX 2.3: a nested playbook that fails": Reads("""
        - step: start
          tool: {kind: playbook, path: read/broken}
          case:
            - when: "{{ event.name == 'call.error' }}"
              then:
                sink: {tool: {kind: postgres, auth: pg_k8s, table: kept}, args: {what: "{{ error.kind }}"}}
                next: [{step: after}]
        - {step: after, tool: {kind: noop}}
        """, ["start", "after"], stored=["playbook"]),
}


@pytest.mark.parametrize("name", BOOKS)
async def test_a_playbook_ends_as_the_text_says(lab: Lab, api: Api, name: str) -> None:
    wanted, dsn = BOOKS[name], await lab.database()
    await execute(dsn, "CREATE TABLE kept (at serial, what text)")
    await lab.register(book("read/broken", "- {step: start, tool: {kind: python, code: 'raise ValueError(1)'}}"))
    api.pages, api.refused = {"/a": [[1, 2]]}, wanted.refused
    workload = '{host: host, api: {url: "http://{{ workload.host }}/v1", deep: {a: 1, b: 2}}}'
    ran = await lab.run(playbook(wanted.workflow, workload=workload, root=wanted.root),
                        {"url": api.url, **wanted.payload})
    assert (ran.status, list(ran.summary.steps)) == (wanted.status, wanted.steps), ran.error
    assert wanted.result is None or ran.result() == wanted.result
    assert [what for (what,) in await rows(dsn, "SELECT what FROM kept ORDER BY at")] == wanted.stored
    assert wanted.asked is None or len(api.asked) == wanted.asked
