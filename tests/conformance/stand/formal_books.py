"""Thirty playbooks in the formal dialect, each construct and combinations of them, with what their tools answer."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from shared.events.outcome import Outcome, failed, ok
from tests.support.playbooks import head

HEAD = head("book")
ENDS = "\n- {step: a, tool: {kind: noop, args: {n: '{{ args.n | default(0) }}'}}}\n- {step: b, tool: {kind: noop}}\n"
GREET = "workbook: [{name: greet, tool: {kind: noop, args: {to: '{{ who }}'}}, sink: {tool: noop}}]\n"
BAD = failed("http", "busy", http={"status": 503})
PAGE = ok({"status_code": 200, "headers": {}, "data": {"n": 5}}, shape="http", http={"status": 200})
COUNT = "{policy: {rules: [{else: {then: {do: continue, set_iter: {n: '{{ (iter.n | default(0)) + 1 }}'}}}}]}}"


class Book(Struct, frozen=True):
    """`workflow` stands behind `before`; `answers` are the outcomes of a task's calls, the last one stays."""

    workflow: str
    answers: dict[str, list[Outcome]] = {}
    before: str = ""
    payload: dict[str, Any] = {}

    @property
    def source(self) -> str:
        return f"{HEAD}{self.before}workflow:\n{self.workflow}"

    def tool(self) -> Callable[[str], Outcome | None]:
        waiting = {task: list(outcomes) for task, outcomes in self.answers.items()}

        def call(task: str) -> Outcome | None:
            left = waiting.get(task)
            return None if not left else left.pop(0) if len(left) > 1 else left[0]

        return call


def _start(body: str, ends: str = ENDS) -> str:
    return f"- step: start\n{body}{ends}"


TOOL = "  tool: {kind: noop, args: {n: 1}}\n"
WORKLOAD = {"n": 2, "all": [1, 2, 3]}
PAGES = [ok({"items": [1], "more": True}), ok({"items": [2], "more": False})]

BOOKS: dict[str, Book] = {
    "next_word": Book(_start(f"{TOOL}  next: a")),
    "next_list": Book(_start(f"{TOOL}  next: [a, b]")),
    "next_args": Book(_start(f"{TOOL}  next: [{{step: a, args: {{n: '{{{{ start.n + 1 }}}}'}}}}]")),
    "args": Book(_start("  args: {m: '{{ workload.n }}'}\n  tool: {kind: noop, args: {got: '{{ m }}'}}"),
                 payload=WORKLOAD),
    "input": Book(_start("  input: {m: 4}\n  tool: {kind: noop, input: {got: '{{ m }}'}}")),
    "program": Book(_start("  args: {m: 4}\n  tool:\n    kind: python\n    code: |\n      # text\n      result = m\n")),
    "vars": Book(_start(f"{TOOL}  vars: {{x: '{{{{ result.n }}}}'}}\n"
                        f"  next: [{{step: a, args: {{n: '{{{{ vars.x }}}}'}}}}]")),
    "set": Book(_start(f"{TOOL}  set: {{ctx.x: '{{{{ output.data.n }}}}'}}\n  next: b")),
    "set_ctx": Book(_start(f"{TOOL}  set_ctx: {{x: 3}}\n  next: b")),
    "sink": Book(_start(f"{TOOL}  sink: {{tool: {{kind: noop}}, args: {{n: '{{{{ result.n }}}}'}}}}\n  next: a")),
    "sink_when": Book(_start(f"{TOOL}  sink: {{tool: noop, args: {{n: 1}}, when: '{{{{ result.n == 2 }}}}'}}\n"
                             "  next: a")),
    "loop_mode": Book(_start("  loop: {in: '{{ workload.all }}', iterator: x, mode: async}\n"
                             "  tool: {kind: noop, args: {x: '{{ x }}'}}\n  next: a"), payload=WORKLOAD),
    "iterator": Book(_start("  tool: {kind: iterator, collection: '{{ workload.all }}', element: x,"
                            " tool: {kind: noop, args: {x: '{{ x }}'}}}\n  next: a"), payload=WORKLOAD),
    "workbook": Book(_start("  tool: {kind: workbook, name: greet, args: {who: you}}\n  next: a"), before=GREET),
    "workbook_vars": Book(_start("  args: {who: me}\n  tool: {kind: workbook, name: greet}\n"
                                 "  vars: {to: '{{ result.to }}'}\n  next: a"), before=GREET),
    "case_done": Book(_start(f"{TOOL}  case:\n    - when: \"{{{{ event.name == 'call.done' }}}}\"\n"
                             "      then: {next: [{step: a}]}\n  next: b")),
    "case_fallback": Book(_start(f"{TOOL}  case:\n    - {{when: '{{{{ result.n == 9 }}}}', then: {{next: a}}}}\n"
                                 "  next: b")),
    "case_several": Book(_start(f"{TOOL}  case:\n    - {{when: '{{{{ result.n == 1 }}}}', then: {{next: [a, b]}}}}\n")),
    "case_sink": Book(_start(f"{TOOL}  case:\n    - when: '{{{{ result.n == 1 }}}}'\n      then:\n"
                             "        sink: {tool: noop, args: {n: '{{ result.n }}'}}\n        set: {ctx.seen: 1}\n"
                             "        next: a\n  next: b")),
    "case_error": Book(_start(f"{TOOL}  case:\n    - when: \"{{{{ event.name == 'call.error' }}}}\"\n"
                              "      then: {next: [{step: a, args: {n: '{{ error.status }}'}}]}\n  next: b"),
                       {"start_task": [BAD]}),
    "case_error_sink": Book(_start(f"{TOOL}  case:\n    - when: \"{{{{ event.name == 'call.error' }}}}\"\n"
                                   "      then: {sink: {tool: noop, args: {e: '{{ error.message }}'}}, next: a}\n"),
                            {"start_task": [BAD]}),
    "case_unhandled": Book(_start(f"{TOOL}  case:\n    - {{when: '{{{{ result.n == 1 }}}}', then: {{next: a}}}}\n"),
                           {"start_task": [BAD]}),
    "case_retry": Book(_start("  tool: {kind: http, url: 'http://x'}\n  case:\n"
                              "    - {when: '{{ error.status == 503 }}', then: {retry: {max_attempts: 3}}}\n  next: a"),
                       {"start_task": [BAD, PAGE]}),
    "retry": Book(_start(f"{TOOL}  retry: {{max_attempts: 3, initial_delay: 1, backoff_multiplier: 1.5}}\n  next: a"),
                  {"start_task": [BAD, BAD, ok({"n": 1})]}),
    "retry_given_up": Book(_start(f"{TOOL}  retry: {{max_attempts: 2}}\n  next: a"), {"start_task": [BAD]}),
    "stop_when": Book(_start(f"{TOOL}  retry: {{max_attempts: 4, stop_when: '{{{{ result.n == 3 }}}}'}}\n  next: a"),
                      {"start_task": [ok({"n": 1}), ok({"n": 3})]}),
    "pages": Book(_start("  tool: {kind: noop, args: {page: 1}}\n  retry:\n    - when: '{{ response.more }}'\n"
                         "      then:\n        max_attempts: 5\n        next_call: {args: {page: 2}}\n"
                         "        collect: {strategy: extend, path: items, into: all}\n  next: a"),
                  {"start_task": PAGES}),
    "choose": Book(_start("  tool:\n    - {name: t, kind: noop, args: {n: 1}}\n"
                          "    - choose: [{when: '{{ _prev.n == 1 }}', then: [{name: one, kind: noop}]},"
                          " {else: [{name: other, kind: noop}]}]\n    - {name: z, kind: noop}\n  next: a")),
    "while": Book(_start("  tool:\n    - while:\n        when: '{{ (iter.n | default(0)) < 3 }}'\n"
                         f"        do: [{{name: body, kind: noop, spec: {COUNT}}}]\n  next: a")),
    "loop_sink_retry": Book(_start("  loop: {in: '{{ workload.all }}', iterator: x, mode: sequential}\n"
                             "  tool: {kind: noop, args: {x: '{{ x }}'}}\n"
                             "  sink: {tool: noop, args: {x: '{{ result.x }}'}}\n  retry: {max_attempts: 2}\n"
                             "  next: [a, b]"),
                      {"start_task": [BAD, ok({"x": 1})]}, payload=WORKLOAD),
}  # fmt: skip
