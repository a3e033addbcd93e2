"""Clauses of DSL2 and PIPE, and decisions between the documents, each taken away."""

from tests.conformance.mutants.mutant import Constant, Edit, Mutant

BROKEN = "tests/unit/dsl/test_broken_playbooks.py::test_broken_playbook_tells_every_mistake_with_its_place_and_fix"
LANGUAGE = "tests/conformance/test_language.py"
PIPELINE = "tests/unit/engine/pipeline/test_pipeline.py"
ROUTING = "tests/unit/engine/routing/test_routing.py"
ORDER = "tests/conformance/meaning/test_order.py"
PLACES = "tests/conformance/meaning/test_places.py"
META = "tests/conformance/meaning/test_meta.py"
COMPILE = "tests/unit/dsl/test_compile.py"
DECIDE = "shared.engine.pipeline.decide"
TURN = "shared.engine.routing.decide:_Turn"
ROUTE = "shared.engine.routing.decide"
READ = "shared.dsl.read"

MUTANTS: dict[str, Mutant] = {
    "root vars are taken": Mutant(
        ("DSL2 §1.1", "DSL2 §12"), f"{BROKEN}[root_vars]",
        Constant(f"{READ}.root:ROOT_KEYS", lambda keys: (*keys, "vars")),
    ),
    "no match says nothing": Mutant(
        ("No rule matches",), f"{PIPELINE}::test_an_error_that_no_rule_matches_continues_and_says_so",
        Edit(f"{DECIDE}:_by_rules", 'if outcome.status == "error":', "if False:"),
    ),
    "no policy continues": Mutant(
        ("DSL2 §6.3", "PIPE rules", "No policy"),
        f"{PIPELINE}::test_without_policy_an_error_fails_the_run_and_names_the_task",
        Edit(f"{DECIDE}:decide", '"continue" if outcome.status == "ok" else "fail"', '"continue"'),
    ),
    "the last rule decides": Mutant(
        ("PIPE rules", "DSL2 §6.1"), f"{ORDER}::test_of_two_rules_that_match_the_first_decides",
        Edit(f"{DECIDE}:_by_rules", "for rule in rules:", "for rule in reversed(rules):"),
    ),
    "else takes what was tried too often": Mutant(
        ("Retry bounds",), f"{PIPELINE}::test_else_does_not_take_what_was_tried_too_often",
        Edit(f"{DECIDE}:_by_rules", "rule.when is None and used_up and not task.else_takes_all", "False"),
    ),
    "a jump goes to the next task": Mutant(
        ("DSL2 §6.5", "DSL2 §11", "PIPE streaming"),
        f"{PIPELINE}::test_jump_skips_to_its_target_and_break_ends_the_run_well",
        Edit(f"{DECIDE}:_next", 'return {"task": event.to}', "pass"),
    ),
    "a break fails": Mutant(
        ("DSL2 §6.5", "DSL2 §11"), f"{PIPELINE}::test_jump_skips_to_its_target_and_break_ends_the_run_well",
        Edit(f"{DECIDE}:_next", '"break":\n            return {"state": "done"}',
             '"break":\n            return {"state": "failed"}'),
    ),
    "the last task's result is lost": Mutant(
        ("DSL2 §3.4", "PIPE variables"),
        f"{PLACES}::test_a_task_sees_the_results_before_it_by_their_names_and_the_last_one_as_prev",
        Edit(f"{DECIDE}:_moved", "prev=result,", ""),
    ),
    "attempt is always the first": Mutant(
        ("DSL2 §3.4", "PIPE variables"),
        f"{PIPELINE}::test_retry_repeats_the_task_with_a_growing_delay_until_attempts_are_used_up_then_fails",
        Edit(f"{DECIDE}:names", "_attempt=progress.attempt", "_attempt=1"),
    ),
    "the last admission rule decides": Mutant(
        ("DSL2 §4.2",), f"{ORDER}::test_of_two_admission_rules_that_match_the_first_decides",
        Edit(f"{TURN}.admitted", "next((i for i, rule in enumerate(step.admit) if",
             "next((i for i, rule in reversed(tuple(enumerate(step.admit))) if"),
    ),
    "a label is no name": Mutant(
        ("DSL2 §5.1", "V10 §7.4", "Task shape"), f"{COMPILE}::test_three_task_shapes_and_labels",
        Edit(f"{READ}.shapes:_item", "return _labelled(reader, label, body, (*path, label))",
             "return TaskSource(f'task_{index}', body, (*path, label), path)"),
    ),
    "args do not travel": Mutant(
        ("DSL2 §2.1", "DSL2 §8.3"), f"{ROUTING}::test_arc_args_reach_the_next_step_with_their_types",
        Edit(f"{TURN}.finish", "self.put_token(arc.step, args, run.run_id)",
             "self.put_token(arc.step, {}, run.run_id)"),
    ),
    "ctx is written as a whole": Mutant(
        ("DSL2 §3.2",), f"{LANGUAGE}::test_ctx_changes_by_patches_in_the_log_and_never_as_a_whole",
        Edit(f"{TURN}.patch_ctx", "self.emit(ev.CtxPatched(run.run_id, patch))",
             "self.emit(ev.CtxPatched(run.run_id, patched))"),
    ),
    "iter has no index": Mutant(
        ("DSL2 §3.3", "FS §6.2"),
        f"{LANGUAGE}::test_an_iteration_sees_its_element_by_name_its_index_and_the_execution_id",
        Edit("shared.engine.values.scope:visible", 'found["loop_index"] = iter_["index"]', 'found["loop_index"] = 0'),
    ),
    "an element is not bound by its name": Mutant(
        ("DSL2 §7.2",), f"{LANGUAGE}::test_an_iteration_sees_its_element_by_name_its_index_and_the_execution_id",
        Edit(f"{DECIDE}:begin", "{step.loop.iterator: command.item,", '{"item": command.item,'),
    ),
    "workload before ctx": Mutant(
        ("DSL2 §3.6", "Read precedence"),
        f"{LANGUAGE}::test_a_bare_name_is_read_from_args_then_ctx_then_iter_then_workload_then_steps",
        Edit("shared.engine.values.scope:visible", "found.update(scope.ctx)\n    found.update(args)",
             "found.update(args)\n    found.update(scope.ctx)"),
    ),
    "an arc without when is never taken": Mutant(
        ("DSL2 §8.2",), f"{ROUTING}::test_a_chain_runs_its_steps_in_order_and_completes",
        Edit(f"{ROUTE}:takes", "arc.when is None or truth", "arc.when is not None and truth"),
    ),
    "an arc does not see the event": Mutant(
        ("DSL2 §8.2", "DSL2 §8.1", "Event in arcs"),
        f"{LANGUAGE}::test_an_arc_reads_the_error_and_the_result_of_its_event",
        Edit(f"{TURN}.names_at_end", "event_view(end,", "event_view(End('step.done', end.seq),"),
    ),
    "any arc takes a failure": Mutant(
        ("Which arcs a failure takes",),
        f"{ROUTING}::test_a_failed_step_takes_the_arc_that_asks_for_it_and_not_an_arc_without_when",
        Edit(f"{ROUTE}:takes", 'event == "step.failed" and not arc.on_failure', "False"),
    ),
    "a failure that nobody takes is a success": Mutant(
        ("Failed without an arc",),
        f"{ROUTING}::test_a_failed_step_that_no_arc_takes_fails_the_execution_with_its_error",
        Edit(f"{TURN}.finish", 'end.event == "step.failed" and not arcs', "False"),
    ),
    "tokens do not join": Mutant(
        ("Several tokens at one step", "FX §10.1"),
        f"{ROUTING}::test_tokens_that_meet_join_and_the_step_runs_once_with_all_args",
        Edit("shared.engine.routing.joins:next_move", "not any(name in plan.reach[other] for other in others)", "True"),
    ),
    "an error does not say whether to try again": Mutant(
        ("PIPE outcome",),
        "tests/unit/events/test_failure.py::test_the_error_of_a_failed_call_always_says_whether_to_try_again",
        Edit("shared.events.outcome:failed", "Failure(kind, message, retryable,",
             "Failure(kind, message, retryable or None,"),
    ),
    "an error has no kind": Mutant(
        ("PIPE outcome", "FX §10.2"),
        "tests/unit/events/test_failure.py::test_the_error_of_a_failed_call_always_says_whether_to_try_again",
        Edit("shared.events.failure:Failure.error", '{"kind": self.kind, "message": self.message}',
             '{"message": self.message}'),
    ),
    "a worker may write what is the server's": Mutant(
        ("V10 §1", "DSL2 §9.1", "DSL2 §9.2", "PIPE", "FX §10.1", "FS §13.1", "FS §13.2"),
        "tests/unit/events/test_records.py::test_each_writer_writes_its_own_events_alone",
        Edit("shared.events.authenticity:_wrong_event", "check = may.get(type(event), _never)",
             "check = may.get(type(event))"),
    ),
    "an end needs a tool": Mutant(
        ("End",), f"{LANGUAGE}::test_the_end_step_needs_no_tool_and_ends_only_its_own_token",
        Edit("shared.dsl.read.steps:_complete", 'and name != "end"', ""),
    ),
    "a done step needs an arc": Mutant(
        ("Done without an arc",), f"{LANGUAGE}::test_a_done_step_that_no_arc_takes_ends_its_token_quietly",
        Edit(f"{TURN}.finish", 'if end.event == "step.failed" and not arcs:', "if step.arcs and not arcs:"),
    ),
    "the result is that of the first step": Mutant(
        ("Result of an execution",), f"{ROUTING}::test_the_result_is_that_of_the_last_step_with_a_tool",
        Edit("shared.engine.routing.state:_close", "state.result = end.result",
             "state.result = state.result or end.result"),
    ),
    "any lets all in": Mutant(
        ("Other joins",), "tests/unit/engine/routing/test_joins.py::test_any_lets_the_first_in_and_absorbs_the_rest",
        Edit("shared.engine.routing.joins:_at_once", "if late:", "if False:"),
    ),
    "a denied token says no rule": Mutant(
        ("Admission denied",),
        f"{ROUTING}::test_a_denied_token_is_consumed_with_the_rule_that_decided_and_the_rest_goes_on",
        Edit(f"{TURN}.admitted", "step.name, decided))", "step.name))"),
    ),
    "a child does not know its parent": Mutant(
        ("Sub-playbooks",), "tests/unit/engine/scheduling/test_waits.py::"
        "test_a_waiting_run_has_no_command_and_gets_one_when_its_child_has_ended",
        Edit("shared.engine.scheduling.waits:asked", "child.execution_id, parent, priority)",
             "child.execution_id, None, priority)"),
    ),
    "a workload may be of any size": Mutant(
        ("Limits",), f"{LANGUAGE}::test_a_workload_over_its_limit_is_refused_before_it_runs",
        Edit("shared.engine.routing.decide:start", "if size > MAX_WORKLOAD_BYTES:", "if False:"),
    ),
    "ctx may be of any size": Mutant(
        ("Limits",), f"{ROUTING}::test_a_ctx_over_its_limit_fails_the_step",
        Edit(f"{TURN}.patch_ctx", "if size > MAX_CTX_BYTES:", "if False:"),
    ),
    "a call does not say when it began": Mutant(
        ("DSL2 §5.3",), f"{META}::test_a_call_says_its_attempt_its_times_and_its_trace",
        Edit("shared.engine.pipeline.call:judged", "stamp(times.began)", "stamp(times.ended)"),
    ),
    "a call does not know its trace": Mutant(
        ("DSL2 §5.3",), f"{META}::test_a_call_says_its_attempt_its_times_and_its_trace",
        Edit(f"{DECIDE}:outcome_view", '{**outcome.meta, "trace_id": trace_id(execution_id)}', "dict(outcome.meta)"),
    ),
    "no token is claimed": Mutant(
        ("DSL2 §9.2",),
        "tests/unit/answers/history/test_formal.py::test_tokens_are_enqueued_and_claimed_and_arcs_enqueue",
        Edit("shared.answers.history.formal:_scheduled", "for token in event.tokens:", "for token in ():"),
    ),
}
