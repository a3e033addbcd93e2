"""Clauses of FX, the extended formal specification, each taken away."""

from tests.conformance.mutants.mutant import Edit, Mutant

BROKEN = "tests/unit/dsl/test_broken_playbooks.py::test_broken_playbook_tells_every_mistake_with_its_place_and_fix"
REJECTED = "tests/conformance/test_language.py::test_what_is_rejected_is_rejected_with_its_code"
LANGUAGE = "tests/conformance/test_language.py"
ROUTING = "tests/unit/engine/routing/test_routing.py"
ORDER = "tests/conformance/meaning/test_order.py"
PLACES = "tests/conformance/meaning/test_places.py"
FROM_LOG = "tests/conformance/meaning/test_from_the_log.py"
CASE = "tests/unit/dsl/lower/test_case.py"
FORMAL = "tests/unit/answers/history/test_formal.py"
QUANTUM = "tests/unit/tools/quantum/test_quantum.py"
RETRY = "tests/unit/dsl/lower/test_retry.py"
STEPS = "tests/unit/dsl/lower/test_steps.py"
COLLECTED = "tests/unit/dsl/lower/test_collected.py"
MISTAKES = "tests/unit/dsl/lower/test_rules_that_fail.py"
EVENTS = "tests/unit/dsl/lower/test_case_events.py"
TURN = "shared.engine.routing.decide:_Turn"
ROUTE = "shared.engine.routing.decide"
STATE = "shared.engine.scheduling.state"
READ = "shared.dsl.read"
LOWER = "shared.dsl.lower"
VIEW = "shared.answers.history.formal"

MUTANTS: dict[str, Mutant] = {
    "a step may do nothing": Mutant(
        ("FX §2.2", "FS §4.1"), f"{BROKEN}[empty_step]",
        Edit(f"{READ}.steps:_complete", 'and name != "end"', "and False"),
    ),
    "rules alone make no step": Mutant(
        ("FX §2.2",), f"{PLACES}::test_a_step_that_has_only_rules_is_one",
        Edit(f"{LOWER}.formal_step:_next", "if not parts.cases:", "if get(node, 'tool') is None:"),
    ),
    "result is the whole answer": Mutant(
        ("FX §3.3", "FS §8.3", "FS App. B"), f"{PLACES}::test_what_a_rule_of_a_case_does_reads_result_and_this",
        Edit(f"{LOWER}.name_meanings:_names", 'f"{view}.result" if kind in SHAPED else view', "view"),
    ),
    "a status is that of a success": Mutant(
        ("FX §3.3",), f"{PLACES}::test_policies_of_a_retry_read_raw_fields",
        Edit(f"{LOWER}.retry:_reads_status", "retry.edition < 3", "retry.edition < 9"),
    ),
    "a refusal does not say why": Mutant(
        ("FX §4.1", "FX §10.1", "FS §3.2"), f"{ROUTING}::test_an_unknown_playbook_is_a_failed_execution_that_says_why",
        Edit(f"{TURN}.refuse", '"failed", None, error)', '"failed", None, None)'),
    ),
    "a request is not recorded": Mutant(
        ("FX §4.1",), f"{FROM_LOG}::test_the_first_events_of_an_execution_come_in_their_order",
        Edit(f"{ROUTE}:start", "payload=request.payload, request_id", "payload={}, request_id"),
    ),
    "the end of a workflow is not recorded": Mutant(
        ("FX §4.3", "FS §13.1"), f"{ROUTING}::test_a_chain_runs_its_steps_in_order_and_completes",
        Edit(f"{TURN}.move", "self.emit(ev.WorkflowFinished())", "pass"),
    ),
    "a run that is taken over begins again": Mutant(
        ("FX §5.3", "FX §9.4", "PIPE overview", "FS §13.2"),
        f"{FROM_LOG}::test_whoever_takes_a_run_over_begins_after_the_last_task_that_is_done",
        Edit("shared.engine.pipeline.history:RunFold.take", "self._kept += record.events", "pass"),
    ),
    "the position of a loop is not in the log": Mutant(
        ("FX §5.3", "FX §9.4"), f"{FROM_LOG}::test_where_an_execution_is_follows_from_its_log",
        Edit(f"{STATE}:settle", "loop.live.pop(index, None)", "pass"),
    ),
    "a report counts as often as it comes": Mutant(
        ("FX §9.3",), f"{FROM_LOG}::test_the_same_record_again_changes_nothing",
        Edit(f"{STATE}:_fold_report", "if index not in loop.live:\n        return", "pass"),
    ),
    "two events have one id": Mutant(
        ("FX §9.3",), f"{FROM_LOG}::test_every_event_has_an_id_of_its_own_that_is_the_same_for_every_reader",
        Edit("shared.events.record:event_id", 'f"{record.writer}-{record.source or n}"',
             'f"{record.writer}-{record.source or record.n}"'),
    ),
    "every policy of a retry counts": Mutant(
        ("FX §6.2",), f"{ORDER}::test_the_first_policy_of_a_retry_that_matches_is_the_only_one",
        Edit(f"{LOWER}.retry:whole", "if inner is not None and env.edition > 1:", "if False:"),
    ),
    "repetition has no end": Mutant(
        ("FX §6.2",), f"{RETRY}::test_repetition_ends_at_max_attempts",
        Edit(f"{LOWER}.retry:policy",
             "limit = most.value if most is not None and type(most.value) is int else DEFAULT_REPEATS",
             "limit = DEFAULT_REPEATS"),
    ),
    "only the last page is collected": Mutant(
        ("FX §6.2",), f"{RETRY}::test_pages_are_fetched_stored_and_collected_with_errors_tried_again_on_the_way",
        Edit(f"{LOWER}.retry:policy", "patch |= gather(env, retry, collect, names)", "pass"),
    ),
    "a step that collects shows its last page": Mutant(
        ("FX §6.2",), f"{COLLECTED}::test_vars_and_the_steps_own_sink_see_the_whole",
        Edit(f"{LOWER}.formal_tail:Parts.after", "self.env.edition > 3 and not page", "False and not page"),
    ),
    "where a step that collects leads is asked of the whole": Mutant(
        ("FX §6.2",), f"{COLLECTED}::test_a_rule_decides_by_the_whole_whether_it_acts_or_only_leads",
        Edit(f"{LOWER}.formal.tail:on_worker", "parts.env.edition > 3 and repeats", "False and repeats"),
    ),
    "a mistake in a retry fails its call": Mutant(
        ("FX §6.2",), f"{MISTAKES}::test_a_mistake_in_a_retry_is_no_failure_of_a_call_that_went_well",
        Edit(f"{LOWER}.formal.arcs:_of_call", "    if asked:\n", "    if False:\n"),
    ),
    "retries count from zero": Mutant(
        ("FX §6.3",), f"{RETRY}::test_every_call_knows_its_number",
        Edit(f"{LOWER}.retry:start", 'key(step, "index"): 1', 'key(step, "index"): 0'),
    ),
    "the last rule of a case acts": Mutant(
        ("FX §7.1", "FS §8.2"), f"{ORDER}::test_of_two_rules_of_a_case_that_match_the_first_acts",
        Edit(f"{LOWER}.formal.tail:_Tail._pass", "rules.append(rule(build(case.position, when)",
             "rules.insert(0, rule(build(case.position, when)"),
    ),
    "a handler hides what it handles": Mutant(
        ("FX §7.1",), f"{MISTAKES}::test_a_mistake_in_a_handler_does_not_hide_what_it_handles",
        Edit("shared.engine.pipeline.decide:_handled", '_error(event, step) if event.do == "jump" else None', "None"),
    ),
    "a handler takes its own mistake": Mutant(
        ("FX §7.1",), f"{MISTAKES}::test_a_mistake_in_a_handler_does_not_hide_what_it_handles",
        Edit(f"{LOWER}.formal.arcs:_of_call", "if parts.around or asked:", "if False:"),
    ),
    "a call is where the step leads": Mutant(
        ("FX §7.1",), f"{EVENTS}::test_a_call_leaves_it_to_the_exit_where_the_step_leads",
        Edit(f"{LOWER}.case:with_calls", "env.edition > 3 and case.next is None", "False and case.next is None"),
    ),
    "a list of steps is a choice": Mutant(
        ("FX §7.2", "FS §9.1"), f"{STEPS}::test_next_in_every_short_shape_becomes_arcs",
        Edit(f"{LOWER}.next:plain_next", "inclusive=len(found) > 1", "inclusive=False"),
    ),
    "a list of steps may have conditions": Mutant(
        ("FX §7.2", "FS §9.2"), f"{REJECTED}[when in a list]",
        Edit(f"{LOWER}.next:_target", 'node = renamed(node, "input", "args")',
             'node = changed(renamed(node, "input", "args"), {"when": None})'),
    ),
    "a sink does not read its when": Mutant(
        ("FX §7.3", "FS §10.1"), f"{CASE}::test_a_sink_stores_after_success_unless_its_when_says_no",
        Edit(f"{LOWER}.build:sink_task", "if when is None:", "if True:"),
    ),
    "a failed sink is passed over": Mutant(
        ("FX §7.3",), f"{CASE}::test_a_failed_step_stores_nothing_and_a_failed_sink_fails_the_step",
        Edit(f"{LOWER}.build:sink_task", "[*failing, otherwise(after)]", "[otherwise(after)]"),
    ),
    "rules of a sink lead nowhere": Mutant(
        ("FX §7.3",), f"{MISTAKES}::test_what_the_rules_of_a_sink_let_pass_goes_the_way_of_its_step",
        Edit(f"{LOWER}.build:sink_task", "if env.edition > 3 and", "if False and"),
    ),
    "a failed sink has no name": Mutant(
        ("FX §7.3",), f"{EVENTS}::test_the_error_of_a_failed_sink_names_it",
        Edit(f"{LOWER}.formal.tail:_Tail._fails", "self.parts.env.edition > 3 or", "False or"),
    ),
    "vars are forgotten": Mutant(
        ("FX §8.1", "FS §11.2", "FS App. B", "FX §10.1"), f"{PLACES}::test_vars_of_a_step_read_its_result",
        Edit(f"{LOWER}.formal_step:_parts", 'vars_ = dict(items(get(node, "vars")))', "vars_ = {}"),
    ),
    "an event has one name": Mutant(
        ("FX §9.2", "Event in arcs"), f"{LANGUAGE}::test_a_boundary_event_answers_to_its_name_and_its_formal_ones",
        Edit("shared.engine.routing.boundary_event:BareEventName.__eq__", "other in BOUNDARY[str.__str__(self)]",
             "str.__eq__(self, other)"),
    ),
    "a pause stops nothing": Mutant(
        ("FX §10.1",), f"{FROM_LOG}::test_a_paused_execution_starts_nothing_until_it_is_resumed",
        Edit(f"{ROUTE}:decide", "if turn.state.paused:", "if False:"),
    ),
    "two steps may have one name": Mutant(
        ("FX §12",), f"{BROKEN}[duplicate_step]",
        Edit(f"{READ}.root:_step", "if name in seen and name:", "if False:"),
    ),
    "a playbook needs no start": Mutant(
        ("FX §12", "FS §3.3"), f"{REJECTED}[no start]",
        Edit(f"{READ}.root:read_workflow", "(entry or START) not in seen", "entry and entry not in seen"),
    ),
    "an arc to nowhere leads somewhere": Mutant(
        ("FX §12",), f"{BROKEN}[arc_to_nowhere]",
        Edit(f"{READ}.arcs:_target", "near = reader.nearest(value, steps)", "return next(iter(steps))"),
    ),
    "a loop needs no iterator": Mutant(
        ("FX §12",), f"{REJECTED}[no iterator]",
        Edit(f"{READ}.loops:_iterator", 'reader.key(path, "DSL404", "loop has no iterator", "add iterator: item")',
             "pass"),
    ),
    "an unknown kind does nothing": Mutant(
        ("FX §12", "FS §4.1"), f"{BROKEN}[unknown_kind]",
        Edit(f"{READ}.tasks:_tool", "if isinstance(kind, str) and kind in kinds:\n        return kinds[kind]",
             "if isinstance(kind, str):\n        return kinds.get(kind, kinds['noop'])"),
    ),
    "any version is taken": Mutant(
        ("FX", "FS §2.1"), f"{BROKEN}[api_version]",
        Edit(f"{READ}.root:read_header", "and root[key] != value:", "and key == 'kind' and root[key] != value:"),
    ),
    "a sink is not per iteration": Mutant(
        ("FX §5.4", "FX §10.2"), f"{PLACES}::test_in_a_loop_a_case_acts_on_every_iteration",
        Edit(f"{LOWER}.formal.tail:_Tail.__init__", "in self.cases if case.sinks]",
             "in self.cases if case.sinks and not parts.looped]"),
    ),
    "a limit limits nothing": Mutant(
        ("FX §10.1",), "tests/unit/engine/scheduling/test_limit_ledger.py::test_as_many_get_a_place_as_there_are",
        Edit("shared.engine.scheduling.limit_ledger:has_place", "len(holders) < want.limit.max", "True"),
    ),
    "an event has no timestamp": Mutant(
        ("FX §9.1", "FS §12.1"), "tests/unit/events/test_documented.py::test_the_envelope_is_on_the_page",
        Edit(f"{VIEW}:FormalView.of", '"timestamp": said["ts"], ', ""),
    ),
    "a pause is progress": Mutant(
        ("FX §9.1",), f"{FORMAL}::test_a_pause_has_its_status",
        Edit(f"{VIEW}:FormalView._said", 'named(own, status="paused")', "named(own)"),
    ),
    "the end of another attempt is no event": Mutant(
        ("FX §9.2", "FS §12.2"),
        f"{FORMAL}::test_a_retry_starts_with_the_end_of_an_attempt_and_is_processed_with_its_own",
        Edit(f"{VIEW}:FormalView._task", "if event.attempt > 1 or key in self._again:", "if False:"),
    ),
    "another call is no retry": Mutant(
        ("FX §9.2",), f"{FORMAL}::test_another_call_by_a_retry_policy_is_a_retry_too_and_its_delay_is_none",
        Edit(f"{VIEW}:FormalView._task", "if isinstance(event, ev.TaskRetried) or repeats:",
             "if isinstance(event, ev.TaskRetried):"),
    ),
    "all quantum jobs have the same counts": Mutant(
        ("FX §11",), f"{QUANTUM}::test_a_job_that_is_repeated_has_the_same_counts_and_another_has_others",
        Edit("shared.tools.quantum.local:LocalProvider.submit", "job.key.encode()", 'b""'),
    ),
}
