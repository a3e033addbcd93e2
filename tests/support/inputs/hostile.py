"""Sources that a compiler may choke on. `refused(size)` are those it must give up on at once, whatever their size;
`dense(size)` are full of content that is right, or nearly: as many steps, arcs, rules or templates as fit."""

from collections.abc import Callable, Iterator

from tests.support.playbooks import head

HEAD = head("p")
START = "  - {step: start, tool: {kind: noop}}\n"
ONE = f"{HEAD}workflow:\n{START}"
BLOCKS = (
    ("loops", "{%for i in x%}", "{%endfor%}"),
    ("loops with a loop variable", "{%for i in x%}{{loop.index}}", "{%endfor%}"),
    ("loops with a test", "{%for i in x if i%}", "{%endfor%}"),
    ("loops after loops", "{%for i in x%}{%else%}", "{%endfor%}"),
    ("loops with unpacked arguments", "{%for i in f(*x)%}", "{%endfor%}"), ("with", "{%with i=x%}", "{%endwith%}"),
    ("set blocks", "{%set i%}", "{%endset%}"), ("conditions", "{%if i%}{%set i=1%}{%else%}", "{%endif%}"),
    ("loops in set blocks", "{%set i%}{%for i in x%}", "{%endfor%}{%endset%}"),
)  # fmt: skip
Unit = Callable[[int], str]


def filled(size: int, before: str, unit: Unit, after: str = "") -> str:
    """`before`, as many units as fit into `size` characters, `after`."""
    parts, left = [before], size - len(before) - len(after)
    for number in range(size):
        part = unit(number)
        left -= len(part)
        if left < 0:
            break
        parts.append(part)
    return "".join((*parts, after))


def refused(size: int) -> Iterator[tuple[str, str | bytes]]:
    yield from _structure(size)
    yield from _numbers(size)
    yield from _text(size)
    yield from templates(size)


def templates(size: int) -> Iterator[tuple[str, str]]:
    """One template as large as it gets."""
    yield "one template of names", _template(filled(size - 200, "{{ ", lambda n: f"a{n} + ", "1 }}"))
    yield "one template of attributes", _template(filled(size - 200, "{{ a", lambda _: ".a", " }}"))
    yield "one template of filters", _template(filled(size - 200, "{{ a", lambda _: "|d(1)", " }}"))
    yield "one template of outputs", _template("{{ a }}" * (size // 7 - 99))
    yield "one template of brackets", _template("{{ " + "(" * (size // 2 - 99) + "1" + ")" * (size // 2 - 99) + " }}")
    yield "one template of openings", _template("{{" * (size // 2 - 99))
    yield "one template of raw tags", _template("{% raw %}" * (size // 9 - 99))
    yield "one template of comments", _template("{{ a }}" + "{#" * (size // 2 - 99))
    yield "one template of blocks", _template("{% if a %}" * (size // 25) + "{% endif %}" * (size // 25))
    yield "power tower", _template("{{ 9" + "**9" * 40 + " }}")


def _structure(size: int) -> Iterator[tuple[str, str]]:
    nine = [",".join([f"*a{n}"] * 9) for n in range(9)]
    yield "alias bomb", f"{HEAD}a0: &a0 [{'x,' * 9}]\n" + "".join(
        f"a{n + 1}: &a{n + 1} [{nine[n]}]\n" for n in range(9))
    yield "alias to itself", f"{ONE}workload: &a {{b: *a}}\n"
    yield "aliases", filled(size, f"{ONE}workload: [&a x,", lambda _: "*a,", "]\n")
    yield "anchors", filled(size, f"{ONE}workload: [", lambda n: f"&a{n} x,", "]\n")
    yield "long anchor", f"{ONE}workload: [&{'x' * (size // 2 - 99)} a, *{'x' * (size // 2 - 99)}]\n"
    keys = ",".join(f"k{n}: 1" for n in range(400))
    yield "merge keys", f"{HEAD}a: &a {{{keys}}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(100))
    yield "merged list", f"{HEAD}a: &a {{{keys}}}\nb: {{<<: [{'*a,' * 99}]}}\n"
    yield "merge chain", f"{HEAD}a0: &a0 {{x: 1}}\n" + "".join(
        f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: 1}}\n" for n in range(1, 100))
    yield "deep flow sequence", "[ " * (size // 2)
    yield "deep flow mapping", "{a: " * (size // 4)
    yield "deep block mapping", "\n".join("  " * n + "a:" for n in range(min(size // 520, 500)))
    yield "deep block sequence", "- " * (size // 2)
    yield "explicit keys", "? " * (size // 2)
    yield "duplicate keys", filled(size, HEAD, lambda _: "a: 1\n")
    yield "keys that are numbers", filled(size, HEAD, lambda n: f"{n}: 1\n")
    yield "keys that are lists", filled(size, HEAD, lambda _: "? [1]\n: 2\n")
    yield "unknown keys", filled(size, HEAD, lambda n: f"k{n}: 1\n")
    yield "long unknown keys", filled(size, HEAD, lambda n: f"{'k' * 1000}{n}: 1\n")
    yield "one long key", f"{HEAD}{'k' * (size - 99)}: 1\n"
    yield "values", filled(size, f"{ONE}workload: {{a: [", lambda _: "1,", "]}\n")
    yield "unclosed flow", filled(size, f"{ONE}workload: {{a: [", lambda _: "1,")
    yield "documents", "---\n" * (size // 4)
    yield "tags", filled(size, f"{ONE}workload: [", lambda _: "!x a,", "]\n")
    yield "long tag", f"{ONE}workload: [!{'x' * (size - 200)} a]\n"


def _numbers(size: int) -> Iterator[tuple[str, str]]:
    yield "huge exponents", filled(size, f"{ONE}workload: {{a: [", lambda _: "1e999999,", "]}\n")
    yield "long integer", f"{ONE}workload: {{a: {'9' * (size - 200)}}}\n"
    yield "long hexadecimal", f"{ONE}workload: {{a: 0x{'f' * (size - 200)}}}\n"
    yield "long integers", filled(size, f"{ONE}workload: {{a: [", lambda _: "9" * 4000 + ",", "]}\n")
    yield "underscores", f"{ONE}workload: {{a: 1{'_1' * (size // 2 - 200)}}}\n"
    yield "leading zeros", f"{ONE}workload: {{a: {'0' * (size - 200)}}}\n"
    yield "colons", f"{ONE}workload: {{a: {'1:' * (size // 2 - 200)}}}\n"


def _text(size: int) -> Iterator[tuple[str, str | bytes]]:
    yield "nothing", ""
    yield "blank lines", "\n" * size
    yield "comments", "#\n" * (size // 2)
    yield "tabs", "\t" * size
    yield "tab indentation", f"{HEAD}workflow:\n\t- step: start\n"
    yield "byte order mark", "\ufeff" + ONE
    yield "carriage returns", ONE.replace("\n", "\r\n")
    yield "UTF-16", ONE.encode("utf-16")
    yield "not UTF-8", b"a: b\n" * (size // 5 - 1) + b"\xff"
    yield "NUL", "a" * (size - 1) + "\0"
    yield "huge scalar", f"{HEAD}workload: {{a: '{'x' * (size - 99)}'}}\n"
    yield "escapes", f'{HEAD}workload: {{a: "{chr(92)}n' + "\\n" * (size // 2 - 99) + '"}\n'
    yield "folded text", f"{ONE}workload:\n  a: >\n" + "    x\n" * (size // 6 - 99)
    yield "plain text over lines", f"{ONE}workload:\n  a: " + "x\n    " * (size // 6 - 99) + "\n"


def programs(size: int) -> Iterator[tuple[str, str]]:
    """Programs of one text, of which the tree takes hundreds of times their size."""
    yield "program with main", _block("python", "code", "def main(a): pass\n        " + "a=1;" * (size // 4 - 99))
    yield "program with a value", _block("python", "code", "x={{ a }};" + "a=1;" * (size // 4 - 99))
    secret = "args: {a: '{{ keychain.x.y }}'}\n      code"
    yield "program with a secret", _block("python", secret, "result = a;" * (size // 11 - 99))


def _template(text: str) -> str:
    return _task("kind: noop, args: {a: '" + text + "'}")


def _task(task: str) -> str:
    return f"{HEAD}workflow:\n  - {{step: start, tool: {{{task}}}}}\n"


def dense(size: int) -> Iterator[tuple[str, str]]:
    yield from _dense_templates(size)
    yield from _dense_flow(size)
    yield from _dense_tasks(size)
    yield from _dense_formal(size)


def _dense_templates(size: int) -> Iterator[tuple[str, str]]:
    args = f"{HEAD}workflow:\n  - {{step: start, tool: {{kind: noop, args: {{a: ["
    for name, unit in {
        "templates": "'{{a%d}}',", "same template": "'{{a}}',", "broken templates": "'{{a%d}',",
        "filters": "'{{a%d|d}}',", "sums": "'{{a%d+b+c}}',", "nested calls": "'{{a%d(b(c(d(e))))}}',",
        "set blocks": "'{%%set a%d%%}{%%endset%%}',", "conditions": "'{%%if a%d%%}{%%endif%%}',",
        "loops": "'{%%for a in b%d%%}{%%endfor%%}',", "pairs": "{a%d: b},", "lists": "[a%d],",
    }.items():
        yield name, filled(size, args, lambda n, unit=unit: unit % n if "%d" in unit else unit, "]}}}\n")
    for depth in (5, 10, 20, 70):
        for name, opening, closing in BLOCKS:
            text = opening * depth + "%s" + closing * depth
            yield f"{depth} {name} within each other", filled(
                size, args, lambda n, text=text: "'" + text.replace("%s", f"{{{{a{n}}}}}") + "',", "]}}}\n")
    yield "self-reading workload", filled(
        size, f"{ONE}workload: {{", lambda n: f"k{n}: '{{{{ workload.k{n} }}}}',", "}\n")
    known = ",".join(f"name{n}: 1" for n in range(200))
    yield "unknown names", filled(size, f"{ONE}workload: {{{known}, a: [", lambda n: f"'{{{{ nam{n} }}}}',", "]}\n")
    items = "".join(f"'{{{{ a{n} }}}}'," for n in range(99))
    yield "templates by alias", f"{ONE}workload: {{a: &x [{items}], b: [{'*x,' * 98}]}}\n"
    yield "long text by alias", f"{ONE}workload: {{a: &x '{'{{ a }}' * 400}', b: [{'*x,' * 98}]}}\n"


def _dense_flow(size: int) -> Iterator[tuple[str, str]]:
    book = f"{HEAD}workflow:\n{START}"
    yield "steps", filled(size, book, lambda n: f"  - {{step: s{n}, tool: {{kind: noop}}}}\n")
    yield "empty steps", filled(size, book, lambda n: f"  - {{step: s{n}}}\n")
    yield "same step", filled(size, book, lambda _: START)
    yield "arcs to nowhere", filled(
        size, book, lambda n: f"  - {{step: stepp{n}, next: {{arcs: [{{step: stepq{n}}}, {{step: stepr{n}}}]}}}}\n")
    for name, mode, count, guard in (("dense net", "inclusive", 30, ""), ("guarded net", "inclusive", 5, "when"),
                                     ("exclusive net", "exclusive", 20, "when"), ("wide forks", "inclusive", 100, "")):
        yield name, filled(size, f"{HEAD}workflow:\n", _forks(mode, count, guard, 400))
    yield "small net", filled(size, f"{HEAD}workflow:\n", _forks("inclusive", 5, "when", 30))


def _forks(mode: str, count: int, guard: str, among: int) -> Unit:
    """Steps whose arcs lead to the steps after them, in a circle of `among`."""

    def unit(number: int) -> str:
        if number >= among:
            return " " * 10_000_000
        whens = [f", when: '{{{{ ctx.k{n} }}}}'" if guard else "" for n in range(count)]
        targets = [(number + n + 1) % among for n in range(count)]
        arcs = ", ".join(f"{{step: {_name(n)}{when}}}" for n, when in zip(targets, whens, strict=True))
        router = f"{{spec: {{mode: {mode}}}, arcs: [{arcs}]}}"
        return f"  - {{step: {_name(number)}, tool: {{kind: noop}}, next: {router}}}\n"
    return unit


def _name(number: int) -> str:
    return f"s{number}" if number else "start"


def _dense_tasks(size: int) -> Iterator[tuple[str, str]]:
    tool = f"{HEAD}workflow:\n  - step: start\n    tool:\n"
    yield "tasks", filled(size, tool, lambda _: "     - {kind: noop}\n")
    rules = f"{HEAD}workflow:\n  - {{step: start, tool: {{kind: noop, spec: {{policy: {{rules: ["
    yield "rules", filled(size, rules, lambda n: f"{{when: '{{{{a{n}}}}}', then: {{do: continue}}}},", "]}}}}\n")
    jumps = ",".join(f"{{when: '{{{{ iter.a == {n} }}}}', then: {{do: jump, to: t{n}}}}}" for n in range(9))
    yield "jumps", filled(
        size, tool, lambda n: f"     - {{name: t{n}, kind: noop, spec: {{policy: {{rules: [{jumps}]}}}}}}\n")
    yield "unknown keys of a task", filled(size, f"{ONE[:-3]}, ", lambda n: f"{'k' * 40}{n}: 1, ", "}}\n")
    sql = 'kind: postgres, command: "'
    yield "SQL values", _task(filled(size - 200, sql, lambda n: f"SELECT {{{{ a{n} }}}}, ", '"'))
    yield "SQL quotes", _task('kind: postgres, command: "SELECT {{ a }} ' + "$a$ " * (size // 4 - 99) + '"')
    yield "SQL comments", _task('kind: postgres, command: "SELECT {{ a }} ' + "/* " * (size // 3 - 99) + '"')
    yield "SQL selects", _task('kind: postgres, command: "' + "select " * (size // 7 - 99) + ' {{ keychain.a.b }}"')
    secret = "kind: python, args: {a: '{{ keychain.x.y }}'}, code: '"
    yield "program of brackets", _task(secret + "result = " + "[" * (size - 300) + "'")
    yield "program of results", _task(secret + "result = a; " * (size // 12 - 30) + "'")
    yield "program of signs", _task(secret + "result = " + "-" * (size - 300) + "1'")
    yield from _shell(size)
    yield "credentials", filled(size, f"{ONE}keychain: [", lambda n: f"{{name: k{n}, kind: bearer}},", "]\n")


def _shell(size: int) -> Iterator[tuple[str, str]]:
    """Texts a scanner of shell programs, or of programs with values in them, may go over again and again."""
    quotes, ticks = '"$(' * (size // 4 - 99), "`" * (size - 300)
    for name, text in {
        "shell values": filled(size - 300, "", lambda n: f"echo {{{{ a{n} }}}} "),
        "shell quotes": "echo {{ a }} " + quotes, "shell braces": "{{ a }}" + "${" * (size // 2 - 99),
        "shell documents": "{{ a }}" + "cat <<E " * (size // 9 - 99), "shell ticks": "{{ a }} " + ticks,
        "shell back strokes": "{{ a }} " + "\\" * (size - 300),
    }.items():
        yield name, _block("shell", "cmds", text)
    code = filled(size - 300, "", lambda n: f"x = {{{{ a{n} }}}}; ")
    yield "program with values", _block("python", "code", code)
    yield "program of texts", _block("python", "code", "x = '{{ a }}' + ''' " * (size // 21 - 30))


def _block(kind: str, key: str, text: str) -> str:
    return f"{HEAD}workflow:\n  - step: start\n    tool:\n      kind: {kind}\n      {key}: |\n        {text}\n"


def _dense_formal(size: int) -> Iterator[tuple[str, str]]:
    step = f"{HEAD}workflow:\n  - step: start\n    tool: {{kind: noop}}\n"
    for name, then in (("cases", "next: [{step: start}]"), ("cases that set", "set: {a: 1}, next: [{step: start}]"),
                       ("cases that store", "sink: {tool: {kind: noop}}")):
        yield name, filled(size, f"{HEAD}workflow:\n", _cases(then))
    yield "retries", filled(
        size, f"{step}    retry:\n",
        lambda n: f"     - {{when: '{{{{ error.status == {n} }}}}', then: {{max_attempts: 5}}}}\n")
    paged = "then: {next_call: {args: {p: 1}}, collect: {into: c}}"
    yield "paged retries", filled(
        size, f"{step}    retry:\n", lambda n: f"     - {{when: '{{{{ response.a == {n} }}}}', {paged}}}\n")
    yield "sinks", filled(size, f"{step}    sink:\n", lambda _: "     - {tool: {kind: noop}, when: '{{ result.a }}'}\n")
    yield "vars", filled(size, f"{step}    vars: {{", lambda n: f"v{n}: '{{{{ result.a{n} }}}}',", "}\n")
    yield "args", filled(size, f"{step}    args: {{", lambda n: f"v{n}: '{{{{ b.a{n} }}}}',", "}\n")
    yield "next list", filled(size, f"{step}    next: [", lambda n: f"{{step: start, args: {{a: {n}}}}},", "]\n")
    yield "steps with retry and case", filled(
        size, f"{HEAD}workflow:\n{START}",
        lambda n: f"  - {{step: s{n}, tool: {{kind: noop}}, retry: {{max_attempts: 3}}, "
                  "case: [{when: '{{ response.a }}', then: {next: [{step: start}]}}]}\n")
    yield from hungry(size)
    yield "nested choices", f"{HEAD}workflow:\n  - step: start\n    tool:\n      - choose: " + (
        "[{when: '{{ a }}', then: [{choose: " * 14 + "[]" + "}]}]" * 14) + "\n"
    yield "workbook", filled(
        size, f"{ONE}workbook: [", lambda n: f"{{name: k{n}, tool: {{kind: noop}}}},", "]\n")
    big = "workbook: [{name: big, tool: {kind: noop, args: {" + ",".join(
        f"a{n}: '{{{{ b{n} }}}}'" for n in range(200)) + "}}}]\n"
    yield "one task used by all", filled(
        size, f"{HEAD}{big}workflow:\n{START}", lambda n: f"  - {{step: s{n}, tool: {{kind: workbook, name: big}}}}\n")


def hungry(size: int) -> Iterator[tuple[str, str]]:
    """What takes the most memory."""
    yield "chain", filled(
        size, f"{HEAD}workflow:\n{START}",
        lambda n: f"  - {{step: s{n}, next: {{arcs: [{{step: s{n and n - 1}}}]}}}}\n")
    yield "choices", filled(
        size, f"{HEAD}workflow:\n  - step: start\n    tool:\n",
        lambda n: f"      - choose: [{{when: '{{{{ a{n} }}}}', then: [{{kind: noop}}]}}, {{else: [{{kind: noop}}]}}]\n")
    branches = "".join(f"{{when: '{{{{ a{n} }}}}', then: [{{kind: noop}}]}}, " for n in range(20))
    yield "branches", filled(
        size, f"{HEAD}workflow:\n  - step: start\n    tool:\n", lambda _: f"      - choose: [{branches}]\n")


def _cases(then: str) -> Unit:
    """Steps with as many rules as one may have."""

    def unit(number: int) -> str:
        rules = "".join(
            f"     - {{when: '{{{{ event.name == \"call.done\" and response.a == {n} }}}}', then: {{{then}}}}}\n"
            for n in range(20))
        return f"  - step: {_name(number)}\n    tool: {{kind: noop}}\n    case:\n{rules}"

    return unit
