"""Every diagnostic code, with its title and one line of documentation. Codes are stable: a code is
never given a second meaning. `docs/dsl.md` carries this table, and a test compares the two."""

from typing import NamedTuple


class Code(NamedTuple):
    title: str
    doc: str


def table() -> str:
    """The codes as a Markdown table."""
    rows = [f"| {code} | {each.title} | {each.doc} |" for code, each in CODES.items()]
    return "\n".join(["| code | title | meaning |", "|---|---|---|", *rows])


CODES: dict[str, Code] = {
    # 1xx: the source text
    "DSL101": Code("not text", "The source is not UTF-8, or holds a character that cannot be stored."),
    "DSL102": Code("YAML syntax", "The source is not well-formed YAML; reading stops here."),
    "DSL103": Code("several documents", "A file holds exactly one playbook; `---` may only begin it."),
    "DSL104": Code("duplicate key", "A mapping has the same key twice."),
    "DSL105": Code("key is not text", "A key is a number, a boolean, null or a collection; quote it."),
    "DSL106": Code("not a playbook", "The document is empty or not a mapping."),
    "DSL107": Code("unsupported YAML", "A tag, alias or merge that has no meaning in a playbook."),
    "DSL108": Code("number out of range", "An integer beyond 64 bits, or infinity or NaN."),
    "DSL109": Code("source limit", "The source is over a size, depth, node, alias or length limit."),
    # 2xx: shape
    "DSL201": Code("unknown key", "The key means nothing here; the nearest known key is suggested."),
    "DSL202": Code("missing key", "A required key is absent."),
    "DSL203": Code("wrong type", "The value is not of the type this key takes."),
    "DSL204": Code("value not allowed", "The value is outside the choices or the range of this key."),
    "DSL205": Code("bad name", "A name does not match the pattern for names, or is reserved."),
    "DSL206": Code("wrong apiVersion or kind", "Playbooks are `apiVersion: noetl.io/v2`, `kind: Playbook`."),
    # 3xx: replaced constructs
    "DSL301": Code("formal dialect", "`case`, `sink`, `retry`, `vars`, step `args`, or a list or text as `next`."),
    "DSL302": Code("`eval` is gone", "Task outcomes are handled by `spec.policy.rules` (V10 §13)."),
    "DSL303": Code("`expr` is gone", "`when` is the only conditional keyword (V10 §4)."),
    "DSL304": Code("`when` on a step", "Admission is `spec.policy.admit.rules` (V10 §5.2.1)."),
    "DSL305": Code("`pipe` is gone", "`tool` is always an ordered pipeline (DSL2 §12)."),
    "DSL306": Code("root `vars`", "Inputs go to `workload`, state to `ctx` by `set_ctx` (V10 §2)."),
    "DSL307": Code("key in the wrong place", "The key exists, but belongs to another part of the playbook."),
    # 4xx: the workflow
    "DSL401": Code("duplicate name", "Two steps, tasks of one step, keychain entries or cases share a name."),
    "DSL402": Code("no start step", "The workflow has no step named `start` (FX §12)."),
    "DSL403": Code("unknown step", "An arc leads to a step that does not exist (FX §12)."),
    "DSL404": Code("incomplete loop", "`loop` needs `in`, `iterator`, and a `tool` to run (FX §12)."),
    "DSL405": Code("unknown tool kind", "No tool of that kind is installed (FX §12)."),
    "DSL406": Code("unknown jump target", "`jump` leads to a task that is not in the same step."),
    "DSL407": Code("empty step", "A step needs a `tool` or a `next`; only `end` may have neither."),
    "DSL408": Code("unknown workbook task", "`kind: workbook` names a task that the workbook does not have."),
    "DSL409": Code("unknown pool", "The server has no worker pool of that name; told when a server is known."),
    "DSL410": Code("compensation in the workflow", "A step that compensates another has arcs, admission or no tool."),
    "DSL411": Code("unknown step in a test", "A mock or an expectation names a step that the playbook does not have."),
    "DSL412": Code("unknown task in a test", "A mock or an expectation names no task, or one the step does not have."),
    "DSL413": Code("playbook of a test", "A playbook that the test names is not there, or is not valid."),
    "DSL414": Code("no pool provides it", "No pool of the server has all that `requires` names; told as DSL409 is."),
    "DSL415": Code("not Python", "A program that Python cannot read; an execution that has begun is not asked."),
    "DSL416": Code("unknown credential", "The server has no credential of that name; told as DSL409 is."),
    # 5xx: policies
    "DSL501": Code("bad rule", "A rule is `{when, then}`, or `else` with `then`, last in its list."),
    "DSL502": Code("control action outside a task", "`do` belongs in a task's policy rules (V10 §5.4)."),
    "DSL503": Code("bad directive", "The keys of `then` do not fit its `do`."),
    "DSL504": Code("bad reducer", "A `$…` key in a patch is not a known reducer, or not alone."),
    "DSL505": Code("endless jumps", "The jumps of a pipeline have no break, no fail and no end."),
    # 6xx: templates
    "DSL601": Code("template syntax", "A template does not parse."),
    "DSL602": Code("not an expression", "The value must be exactly one `{{ expression }}`."),
    "DSL603": Code("keychain outside a tool call", "A secret would be written to the log."),
    "DSL604": Code("value inside SQL text", "An expression stands where SQL cannot take a bound value."),
    "DSL605": Code("value inside shell text", "An expression stands where a shell cannot take a value."),
    # 7xx: not supported
    "DSL701": Code("not supported", "The construct is known, but this version does not run it."),
    # 8xx: limits
    "DSL801": Code("workflow limit", "Too many steps, tasks or arcs of a step, templates, cases or mocks."),
    "DSL802": Code("too many mistakes", "The list of diagnostics was cut off."),
    # 9xx: warnings
    "DSL901": Code("rules without else", "An outcome no rule matches continues silently, errors too."),
    "DSL902": Code("unreachable step", "No path of arcs that can be taken leads from `start` to the step."),
    "DSL903": Code("no effect", "The setting changes nothing where it stands."),
    "DSL904": Code("arc never taken", "Its condition is always false, or an earlier arc takes all."),
    "DSL905": Code("failure not handled", "No arc takes `step.failed` of a best-effort loop."),
    "DSL906": Code("fall-through", "A branch of a pipeline runs on into the next branch of the same choice."),
    "DSL907": Code("tokens pile up", "A cycle with an inclusive router can make tokens faster than they end."),
    "DSL908": Code("tokens wait for each other", "Branches inside a cycle can block each other's join."),
    "DSL909": Code("cycle without a way out", "A token in the cycle can only end by a failure."),
    "DSL910": Code("unknown name", "A template reads a name that nothing defines there."),
    "DSL911": Code("unknown key", "A template reads a key of `workload`, `ctx`, `args` or `iter` that nothing sets, or "
                   "a field that `outcome`, `event`, `schedule` or `message` does not have."),
    "DSL912": Code("plain write in parallel", "Parallel iterations write the same `ctx` key without a reducer."),
    "DSL913": Code("secret in a result", "A result would hold a keychain value; it is blanked out."),
    "DSL914": Code("jumps end only by a failure", "No rule and no last task ends the jumps of a pipeline."),
    "DSL915": Code("value as a SQL name", "A value stands where SQL takes only a name; it is quoted as one."),
    "DSL916": Code("command from a value", "A whole SQL command is the value of one expression; it is run as it is."),
    "DSL917": Code("error without that field", "A rule reads a field of `error` that this kind of task never has."),
    "DSL918": Code("value inside a program", "`{{ }}` in code, which is taken as written; its value is handed over."),
    "DSL919": Code("join of more than can come", "A join waits for more tokens than its arcs can bring."),
    "DSL920": Code("mock never asked", "An earlier mock of the same task answers every call."),
    "DSL921": Code("never equal", "A condition compares `outcome.status` or `event.name` with what they never are."),
    "DSL930": Code("not for failures", "A `when` that does not read `event` takes no failure; it did once (ADR 32)."),
    "DSL931": Code("for failures too", "`step.exit` and `step.finished` come after a failure as well (ADR 32)."),
    "DSL932": Code("means something else now", "Rules of both events of a step act, `vars` of a loop are taken once, "
                   "a call's args win over the workbook's, steps without next lead to `end` (ADR 32)."),
}
