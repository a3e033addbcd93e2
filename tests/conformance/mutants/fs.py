"""Clauses of FS, the formal specification, each taken away."""

from msgspec.structs import replace

from tests.conformance.mutants.mutant import Constant, Edit, Mutant

BROKEN = "tests/unit/dsl/test_broken_playbooks.py::test_broken_playbook_tells_every_mistake_with_its_place_and_fix"
LANGUAGE = "tests/conformance/test_language.py"
ROUTING = "tests/unit/engine/routing/test_routing.py"
SCHEDULING = "tests/unit/engine/scheduling/test_scheduling.py"
PLACES = "tests/conformance/meaning/test_places.py"
FROM_LOG = "tests/conformance/meaning/test_from_the_log.py"
CASE = "tests/unit/dsl/lower/test_case.py"
FORMAL = "tests/unit/answers/history/test_formal.py"
RETRY = "tests/unit/dsl/lower/test_retry.py"
STEPS = "tests/unit/dsl/lower/test_steps.py"
WORKBOOK = "tests/unit/dsl/lower/test_workbook.py"
ROUTE = "shared.engine.routing.decide"
LOOPS = "shared.engine.scheduling.loops"
READ = "shared.dsl.read"
LOWER = "shared.dsl.lower"
VIEW = "shared.answers.history.formal"
REQUESTS = "tests/unit/events/test_requests.py"
TURN = "shared.engine.routing.decide:_Turn"
ORDER = "tests/conformance/meaning/test_order.py"
FAILURES = "tests/unit/dsl/lower/test_case_failures.py"
ITERATORS = "tests/unit/dsl/lower/test_iterators.py"

MUTANTS: dict[str, Mutant] = {
    "results come in the order of their ends": Mutant(
        ("FS §6.2",), f"{SCHEDULING}::test_loop_done_comes_once_after_the_last_iteration_with_results_in_index_order",
        Edit(f"{LOOPS}:_done", "found[index] = manifest_item(result)", "found[-1 - index] = manifest_item(result)"),
    ),
    "a retry does not know the status": Mutant(
        ("FS §7.3", "FS App. B"), f"{PLACES}::test_retry_reads_the_attempt_that_failed",
        Edit(f"{LOWER}.name_meanings:on_task", 'status_code="outcome.http.status"', 'status_code="outcome.http.code"'),
    ),
    "this has no meta": Mutant(
        ("FS §8.3",), f"{PLACES}::test_what_a_rule_of_a_case_does_reads_how_the_call_went",
        Edit(f"{LOWER}.formal_step:_parts", '"{{ outcome.meta }}"', '"{{ dict(duration_s=0) }}"'),
    ),
    "a failed call has no response": Mutant(
        ("FS §8.3",), f"{FAILURES}::test_a_rule_reads_what_a_failed_call_answered",
        Edit(f"{LOWER}.name_meanings:with_failures", "if edition < 4 or", "if edition < 9 or"),
    ),
    "an iterator gives way to vars": Mutant(
        ("FS §6.2",), f"{ITERATORS}::test_the_bare_name_of_an_iterator_is_the_element",
        Edit(f"{LOWER}.formal.iterators:bind_iterators", "if env.edition < SINCE", "if env.edition < 9"),
    ),
    "a retry does not know its last result": Mutant(
        ("FS §7.3", "FS App. B"), f"{PLACES}::test_retry_reads_the_last_result",
        Edit(f"{LOWER}.name_meanings:on_task", 'data=f"{view}.data"', 'data=f"{view}.body"'),
    ),
    "the beginning of a workflow is not recorded": Mutant(
        ("FS §3.3", "FS §13.1"), f"{FROM_LOG}::test_the_first_events_of_an_execution_come_in_their_order",
        Edit(f"{ROUTE}:start", "turn.emit(ev.WorkflowStarted())", "pass"),
    ),
    "without a match nothing follows": Mutant(
        ("FS §8.2", "FX §7.2"), f"{CASE}::test_without_a_match_next_is_the_fallback",
        Edit(f"{LOWER}.formal_step:_next", "led.of_next(following)", "pass"),
    ),
    "a version need not be said": Mutant(
        ("FS §2.1",), f"{BROKEN}[no_header_at_all]",
        Edit(f"{READ}.root:read_header", 'if reader.required(root, key, (), "the playbook", fix) and',
             "if key in root and"),
    ),
    "a playbook needs no name": Mutant(
        ("FS §2.2",), f"{BROKEN}[metadata_without_name]",
        Edit(f"{READ}.root:read_header", 'reader.required(metadata, "name", ("metadata",), "metadata", fix)', "pass"),
    ),
    "templates are not checked": Mutant(
        ("FS §2.3",), "tests/unit/dsl/templates/test_evaluate.py::test_check_tells_what_is_wrong_and_where",
        Edit("shared.dsl.templates.evaluate:check", "return message, max(0, line - 1)", "return None"),
    ),
    "templates do not know their execution": Mutant(
        ("FS §2.3", "FX §3.2"), f"{PLACES}::test_args_of_a_step_read_workload_vars_results_and_the_execution",
        Edit("shared.engine.values.scope:visible", 'found["execution_id"] = execution_id',
             'found["execution_id"] = ""'),
    ),
    "results have no names": Mutant(
        ("FS §2.3", "DSL2 §3.6"),
        f"{LANGUAGE}::test_a_bare_name_is_read_from_args_then_ctx_then_iter_then_workload_then_steps",
        Edit("shared.engine.values.scope:visible", "{name: view(result) for name, result in scope.steps.items()}",
             "{}"),
    ),
    "a workload is not rendered": Mutant(
        ("FS §3.2",), f"{ROUTING}::test_the_payload_is_merged_deep_over_the_workload_and_never_rendered",
        Edit("shared.engine.routing.workload:merge_workload", "value = evaluate(plan.workload[key], scope)",
             "value = plan.workload[key]"),
    ),
    "the first step does not get the workload": Mutant(
        ("FS §2.3", "FS §3.2", "FS §3.3"),
        f"{PLACES}::test_args_of_a_step_read_workload_vars_results_and_the_execution",
        Edit("shared.engine.values.scope:narrow", "workload=_pick(workload, needs.workload, needs.names)",
             "workload={'w': 0}"),
    ),
    "any collection is a list": Mutant(
        ("FS §6.2",), f"{SCHEDULING}::test_a_collection_that_is_not_a_list_fails_the_step",
        Edit(f"{LOOPS}:_begin", "if not isinstance(found, list | tuple):", "if False:"),
    ),
    "stop_when goes on": Mutant(
        ("FS §7.2",), f"{RETRY}::test_conditions_of_a_retry",
        Edit(f"{LOWER}.retry:_formal", 'f"not ({inner})" if name == "stop_when"',
             'f"({inner})" if name == "stop_when"'),
    ),
    "retry_when is not read": Mutant(
        ("FS §7.2",), f"{RETRY}::test_conditions_of_a_retry",
        Edit(f"{LOWER}.retry:_formal", 'for name in ("stop_when", "retry_when"):\n        when',
             'for name in ("stop_when",):\n        when'),
    ),
    "a list of tasks is no workbook": Mutant(
        ("FS §5", "FS §4.2", "Workbook"), f"{WORKBOOK}::test_a_workbook_task_runs_with_the_args_of_its_reference",
        Edit(f"{LOWER}.root:_read_workbook", "if is_list(workbook) or is_list(tasks):", "if False:"),
    ),
    "iterator is no kind": Mutant(
        ("FS §4.2",), f"{STEPS}::test_iterator_as_a_kind_is_the_loop_of_its_step",
        Edit(f"{LOWER}.lower:_iterator", '!= "iterator"', '!= "iterators"'),
    ),
    "async is one after the other": Mutant(
        ("FS §6.1",), f"{STEPS}::test_loop_mode_beside_in",
        Edit(f"{LOWER}.lower:_loop", 'build(mode.position, "parallel")', 'build(mode.position, "sequential")'),
    ),
    "a loop does not see the args of its step": Mutant(
        ("FS §3.4",), f"{ORDER}::test_inputs_loop_tools_result_vars_and_routing_come_in_this_order",
        Edit(f"{LOWER}.formal_step:_loop", '"in": renamed_node(over, names)', '"in": over'),
    ),
    "what is set leaves no event": Mutant(
        ("FS §3.4", "FX §4.2", "FX §10.3"), f"{ORDER}::test_every_phase_of_a_step_leaves_an_event",
        Edit(f"{TURN}.patch_ctx", "self.emit(ev.CtxPatched(run.run_id, patch))", "self.state.ctx = patched"),
    ),
    "a request need not name a playbook": Mutant(
        ("FS §3.1",), f"{REQUESTS}::test_a_bad_request_is_corrupt_and_says_why",
        Edit("shared.events.request:wrong", "if not request.path and not request.playbook_id:", "if False:"),
    ),
    "vars is no name": Mutant(
        ("FS §2.3",), f"{PLACES}::test_args_of_a_step_read_workload_vars_results_and_the_execution",
        Constant(f"{LOWER}.formal_step:EVERYWHERE", lambda names: replace(names, plain={})),
    ),
    "a sink runs first": Mutant(
        ("FS §3.4", "FS §10.1"), f"{ORDER}::test_a_sink_stores_the_result_before_the_next_step_begins",
        Edit(f"{LOWER}.formal_step:_pipeline", "[*first, *tasks, *rest,", "[*first, *rest, *tasks,"),
    ),
    "a retry does not say which attempt it was": Mutant(
        ("FS §13.2",),
        "tests/unit/engine/pipeline/test_pipeline.py::"
        "test_retry_repeats_the_task_with_a_growing_delay_until_attempts_are_used_up_then_fails",
        Edit("shared.engine.pipeline.decide:_by_rules", "ev.TaskRetried(task.name, progress.attempt,",
             "ev.TaskRetried(task.name, 1,"),
    ),
    "an iteration ends as a step does": Mutant(
        ("FS §13.2",), f"{ORDER}::test_every_phase_of_a_step_leaves_an_event",
        Edit("shared.engine.pipeline.decide:ending", "ev.IterationDone(progress.prev, patches) if iteration else ", ""),
    ),
    "a sink is a tool": Mutant(
        ("FS §10.1", "FS §12.1", "FS §12.2", "FS §13.2", "FX §9.2"),
        f"{FORMAL}::test_a_sink_starts_and_is_processed_or_skipped",
        Edit(f"{VIEW}:_by_role", "if not role:", 'if role != "case":'),
    ),
    "a sink that is skipped says nothing": Mutant(
        ("FS §10.1", "FS §12.2"), f"{FORMAL}::test_a_sink_starts_and_is_processed_or_skipped",
        Edit(f"{VIEW}:FormalView._task", 'task.role == "sink.when"', "False"),
    ),
    "where a case leads is no event": Mutant(
        ("FS §12.2", "FS §13.1", "FX §9.2"),
        f"{FORMAL}::test_rules_of_a_case_are_evaluated_where_they_act_and_where_they_route",
        Edit(f"{VIEW}:FormalView._routed", "if step is not None and step.case:", "if False:"),
    ),
    "a step is finished as often as it is said": Mutant(
        ("FS §12.2",), f"{FORMAL}::test_a_cancelled_step_is_finished_once_and_skipped",
        Edit(f"{VIEW}:FormalView._ended", "case _ if step is None:", "case _ if False:"),
    ),
    "what was written twice happened twice": Mutant(
        ("Formal view of events",),
        f"{FORMAL}::test_what_a_worker_says_too_late_ends_nothing_and_what_it_wrote_twice_is_once",
        Edit(f"{VIEW}:FormalView.of", "if first in self._seen:", "if False:"),
    ),
    "templates of a workload do not see each other": Mutant(
        ("Templates of the workload",), f"{ROUTING}::test_a_template_of_the_workload_sees_what_the_others_came_to",
        Edit("shared.engine.routing.workload:merge_workload", "if key not in _RESERVED:", "if False:"),
    ),
    "a default that is replaced is rendered": Mutant(
        ("Templates of the workload",), f"{PLACES}::test_a_default_that_the_request_replaces_is_not_rendered",
        Edit("shared.engine.routing.workload:merge_workload", "            continue", "            pass"),
    ),
}
