"""Clauses of V10, the Canonical Step Spec, each taken away."""

from tests.conformance.mutants.mutant import Constant, Edit, Mutant

BROKEN = "tests/unit/dsl/test_broken_playbooks.py::test_broken_playbook_tells_every_mistake_with_its_place_and_fix"
REJECTED = "tests/conformance/test_language.py::test_what_is_rejected_is_rejected_with_its_code"
LANGUAGE = "tests/conformance/test_language.py"
PIPELINE = "tests/unit/engine/pipeline/test_pipeline.py"
ROUTING = "tests/unit/engine/routing/test_routing.py"
SCHEDULING = "tests/unit/engine/scheduling/test_scheduling.py"
PLACES = "tests/conformance/meaning/test_places.py"
COMPILE = "tests/unit/dsl/test_compile.py"
LAYERS = "tests/unit/dsl/read/test_spec_layers.py"
SUGAR = "tests/unit/dsl/lower/test_sugar.py"
DECIDE = "shared.engine.pipeline.decide"
TURN = "shared.engine.routing.decide:_Turn"
ROUTE = "shared.engine.routing.decide"
LOOPS = "shared.engine.scheduling.loops"
STATE = "shared.engine.scheduling.state"
READ = "shared.dsl.read"
LOWER = "shared.dsl.lower"
ORDER = "tests/conformance/meaning/test_order.py"
TODAY = "tests/unit/dsl/lower/test_todays_names.py"
PLACEHOLDERS = "tests/unit/dsl/read/test_placeholders.py"
LATER = f"{PLACEHOLDERS}::test_a_placeholder_is_refused_with_its_clause_and_what_to_write"

MUTANTS: dict[str, Mutant] = {
    "a task names the next step": Mutant(
        ("V10 §1",), f"{BROKEN}[directive]",
        Constant(f"{READ}.task_policy:THEN_KEYS", lambda keys: (*keys, "next")),
    ),
    "any root section is taken": Mutant(
        ("V10 §2", "DSL2 §1.1"), f"{BROKEN}[root_unknown_section]",
        Constant(f"{READ}.root:ROOT_KEYS", lambda keys: (*keys, "worklaod")),
    ),
    "an inner map replaces the outer one": Mutant(
        ("V10 §3.1",), f"{LAYERS}::test_maps_merge_deep_scalars_and_lists_replace",
        Edit(f"{READ}.spec_layers:merge", "merge(old, value) if both else value", "value"),
    ),
    "the outer spec wins": Mutant(
        ("V10 §3.1",), f"{LAYERS}::test_effective_spec_layers_from_kind_defaults_to_task",
        Edit(f"{READ}.spec_layers:effective_spec", "*layers)", "*reversed(tuple(layers)))"),
    ),
    "a step may have a when": Mutant(
        ("V10 §13", "DSL2 §2.2", "DSL2 §12"), f"{BROKEN}[removed_words]",
        Constant(f"{READ}.steps:STEP_KEYS", lambda keys: (*keys, "when")),
    ),
    "a step may control": Mutant(
        ("V10 §5.2.2",), f"{REJECTED}[control on a step]",
        Edit(f"{READ}.step_policy:read_step_policy", '"compensate")', '"compensate", "do")'),
    ),
    "a policy may be a list": Mutant(
        ("V10 §5.4",), f"{BROKEN}[policy_list]",
        Edit(f"{READ}.task_policy:read_task_policy", "reader.mapping(value, path,",
             "reader.mapping({'rules': value} if isinstance(value, list) else value, path,"),
    ),
    "no match fails": Mutant(
        ("V10 §5.4", "PIPE rules", "DSL2 §6.3"),
        f"{PIPELINE}::test_an_error_that_no_rule_matches_continues_and_says_so",
        Edit(f"{DECIDE}:_by_rules", 'Directive("continue"), {}, {})]', 'Directive("fail"), {}, {})]'),
    ),
    "attempts are not counted": Mutant(
        ("V10 §9", "V10 §9.1", "DSL2 §6.5", "FX §10.2", "Retry bounds"),
        f"{PIPELINE}::test_retry_repeats_the_task_with_a_growing_delay_until_attempts_are_used_up_then_fails",
        Edit(f"{DECIDE}:_by_rules", "progress.attempt >= then.attempts", "False"),
    ),
    "backoff does not grow": Mutant(
        ("V10 §9.1",), f"{PIPELINE}::test_backoff",
        Edit(f"{DECIDE}:backoff", "delay *= then.multiplier ** min(attempt - 1, 32)", "pass"),
    ),
    "tasks do not know each other by name": Mutant(
        ("V10 §7.5",), f"{PLACES}::test_a_task_sees_the_results_before_it_by_their_names_and_the_last_one_as_prev",
        Edit(f"{DECIDE}:names", "{**scope.steps, **results} if results else scope.steps", "scope.steps"),
    ),
    "no admission denies": Mutant(
        ("V10 §5.2.1", "DSL2 §4.2"), f"{LANGUAGE}::test_no_admission_means_allow",
        Edit(f"{TURN}.enter", "if step.admit and not self.admitted", "if not self.admitted"),
    ),
    "admission does not see args": Mutant(
        ("V10 §4", "DSL2 §4.2"),
        f"{LANGUAGE}::test_admission_reads_args_ctx_and_workload_and_a_denied_token_ends_the_execution_well",
        Edit(f"{TURN}.names_at_entry", "args_of(tokens)", "{}"),
    ),
    "a window has no bound": Mutant(
        ("V10 §5.3",), f"{SCHEDULING}::test_a_parallel_loop_never_has_more_than_max_in_flight_at_once",
        Edit(f"{LOOPS}:_begin", "max_in_flight=most", "max_in_flight=1000"),
    ),
    "a sequential loop is parallel": Mutant(
        ("V10 §5.3", "FS §6.2"), f"{SCHEDULING}::test_a_sequential_loop_runs_one_iteration_after_the_other",
        Edit(f"{READ}.loops:_mode", 'DEFAULT_IN_FLIGHT if mode == "parallel" else 1', "DEFAULT_IN_FLIGHT"),
    ),
    "an exclusive router takes all": Mutant(
        ("V10 §5.5", "DSL2 §8.4"), f"{ROUTING}::test_exclusive_takes_the_first_matching_arc_and_inclusive_all",
        Edit(f"{TURN}.select", 'if step.mode == "exclusive":', "if False:"),
    ),
    "an inclusive router takes the first": Mutant(
        ("V10 §5.5", "DSL2 §8.4"), f"{ROUTING}::test_exclusive_takes_the_first_matching_arc_and_inclusive_all",
        Edit(f"{TURN}.select", 'if step.mode == "exclusive":', "if True:"),
    ),
    "the payload replaces the workload": Mutant(
        ("V10 §6.1", "DSL2 §3.1", "FS §3.2"),
        f"{ROUTING}::test_the_payload_is_merged_deep_over_the_workload_and_never_rendered",
        Edit("shared.engine.routing.workload:deep_merge",
             "deep_merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value",
             "value"),
    ),
    "a payload is rendered": Mutant(
        ("V10 §6.1",), f"{ROUTING}::test_the_payload_is_merged_deep_over_the_workload_and_never_rendered",
        Edit("shared.engine.routing.workload:merge_workload", "return {key: found[key] for",
             "return {key: evaluate(found[key], {}) for"),
    ),
    "parallel writes may clash": Mutant(
        ("V10 §6.2", "DSL2 §6.6", "set_ctx in parallel loops"),
        f"{SCHEDULING}::test_a_second_plain_write_of_a_key_fails_that_iteration_of_a_parallel_loop",
        Constant(f"{STATE}:plain_keys", lambda _: lambda _patch: set()),
    ),
    "reducers clash as well": Mutant(
        ("V10 §15", "V10 §6.2", "DSL2 §6.6", "set_ctx in parallel loops"),
        f"{SCHEDULING}::test_reducers_are_always_allowed_in_parallel_loops",
        Constant(f"{STATE}:plain_keys", lambda _: set),
    ),
    "an inner loop hides the outer one": Mutant(
        ("V10 §6.4", "DSL2 §3.5", "Nested loops"),
        "tests/unit/engine/scheduling/test_nesting.py::test_every_iteration_of_three_levels_knows_where_it_stands",
        Edit("shared.engine.scheduling.nesting:iteration", '{**found, "parent": parent} if parent else found', "found"),
    ),
    "unnamed tasks count from one": Mutant(
        ("V10 §7", "Task shape"), f"{COMPILE}::test_three_task_shapes_and_labels",
        Edit(f"{READ}.shapes:_item", 'f"task_{index}"', 'f"task_{index + 1}"'),
    ),
    "a single task is called task_0": Mutant(
        ("V10 §7",), f"{COMPILE}::test_three_task_shapes_and_labels",
        Edit(f"{READ}.shapes:_single", 'f"{step}_task"', '"task_0"'),
    ),
    "a loop is done with its first iteration": Mutant(
        ("V10 §8", "DSL2 §7.2", "Owner of loop.done", "Result of a step"),
        f"{SCHEDULING}::test_loop_done_comes_once_after_the_last_iteration_with_results_in_index_order",
        Edit(f"{LOOPS}:_proceed", "is_over = loop.ended == left.below(count)", "is_over = loop.ended > 0"),
    ),
    "fail_fast goes on": Mutant(
        ("V10 §5.2.2", "Failure mode"), f"{SCHEDULING}::test_fail_fast_fails_the_step_with_the_first_failed_iteration",
        Edit(f"{LOOPS}:failure", 'step.failure != "fail_fast" or', 'step.failure == "fail_fast" or'),
    ),
    "best_effort stops": Mutant(
        ("V10 §5.2.2", "Failure mode"), f"{SCHEDULING}::test_best_effort_runs_all_and_tells_the_failures",
        Edit(f"{LOOPS}:failure", 'step.failure != "fail_fast" or ', ""),
    ),
    "a branch falls through into the next": Mutant(
        ("V10 §14",), f"{SUGAR}::test_choose_takes_one_branch_and_goes_on_behind_it",
        Edit(f"{LOWER}.sugar:_choose", "branches += [*branch, _jump(each.position, leave, end)]", "branches += branch"),
    ),
    "what is done is not undone": Mutant(
        ("V10 §15",),
        "tests/unit/engine/routing/test_compensation.py::"
        "test_a_failure_undoes_what_is_done_last_first_and_keeps_its_error",
        Edit("shared.engine.routing.compensation:end",
             "undoing = bool(state.undo) or any(run.undo for run in state.runs.values())",
             "undoing = False"),
    ),
    "set_iter leaves its iteration": Mutant(
        ("V10 §6.3", "DSL2 §7.2"), f"{LANGUAGE}::test_set_iter_stays_in_its_iteration",
        Edit(f"{DECIDE}:_patched", "set_iter, set_ctx = event.set_iter, event.set_ctx",
             "set_iter, set_ctx = event.set_iter, {**event.set_ctx, **event.set_iter}"),
    ),
    "a loop's spec does not reach its tasks": Mutant(
        ("V10 §3",), f"{ORDER}::test_a_spec_of_every_layer_reaches_the_task",
        Edit(f"{READ}.steps:read_step", "step_knobs, loop_knobs)", "step_knobs, {})"),
    ),
    "a spec of a step wins over that of its task": Mutant(
        ("V10 §3.1",), f"{ORDER}::test_the_inner_spec_wins_and_keeps_what_it_does_not_name",
        Edit(f"{READ}.tasks:read_task", "(*outer, knobs)", "(knobs, *outer)"),
    ),
    "a loop may have the policy of a step": Mutant(
        ("V10 §3.2", "V10 §5"), f"{ORDER}::test_a_policy_of_another_scope_is_refused",
        Edit(f"{READ}.loops:_spec", '("exec", "mode", "max_in_flight")',
             '("exec", "mode", "max_in_flight", "failure")'),
    ),
    "hooks are ignored": Mutant(
        ("V10 §5.4",), LATER,
        Edit(f"{READ}.task_policy:read_task_policy", "if policy.get(hook, []) != []:", "if False:"),
    ),
    "emit is ignored": Mutant(
        ("V10 §5.2.2",), LATER,
        Edit(f"{READ}.step_policy:read_step_policy", '"limits", "compensate")', '"limits", "compensate", "emit")'),
    ),
    "a secret may be recorded": Mutant(
        ("Keychain",), f"{REJECTED}[keychain in noop]",
        Edit(f"{READ}.tasks:read_task", "secrets=tool is None or not (tool.pure or tool.waits)", "secrets=True"),
    ),
    "ctx hides the workload": Mutant(
        ("V10 §6.1", "DSL2 §3.1"), f"{ORDER}::test_what_is_written_to_ctx_leaves_the_input_as_it_was",
        Edit("shared.engine.values.scope:visible", 'found["workload"] = scope.workload',
             'found["workload"] = {**scope.workload, **scope.ctx}'),
    ),
    "a task may have an eval": Mutant(
        ("V10 §4", "V10 §13"), f"{BROKEN}[removed_words]",
        Constant(f"{READ}.tasks:COMMON_KEYS", lambda keys: (*keys, "eval")),
    ),
    "a rule may have an expr": Mutant(
        ("V10 §4", "DSL2 §12"), f"{BROKEN}[rules]",
        Edit(f"{READ}.shapes:_rule",
             'reader.key((*path, "expr"), "DSL303", "expr is not a key of a rule", "rename expr to when")', "pass"),
    ),
    "every loop is local": Mutant(
        ("V10 §5.3", "V10 §11"), f"{SCHEDULING}::test_a_parallel_loop_never_has_more_than_max_in_flight_at_once",
        Edit(f"{READ}.loops:read_loop", 'local = policy.get("exec") == "local"', "local = True"),
    ),
    "no loop is local": Mutant(
        ("V10 §5.3",),
        "tests/unit/engine/pipeline/test_local_loops.py::test_all_iterations_are_one_command_and_one_window",
        Edit(f"{READ}.loops:read_loop", 'local = policy.get("exec") == "local"', "local = False"),
    ),
    "rules may all act": Mutant(
        ("V10 §5.4",), LATER,
        Edit(f"{READ}.task_policy:read_task_policy", "if policy.get(key, only) != only:", "if False:"),
    ),
    "a spec on an arc is ignored": Mutant(
        ("V10 §3", "V10 §15"), LATER,
        Edit(f"{READ}.arcs:_arc", '("step", "when", "args")', '("step", "when", "args", "spec")'),
    ),
    "hints of a router are ignored": Mutant(
        ("V10 §5.5", "V10 §15"), LATER,
        Edit(f"{READ}.arcs:_mode", 'if spec.get("policy", {}) != {}:', "if False:"),
    ),
    "resources are ignored": Mutant(
        ("V10 §5.1",), LATER, Edit(f"{READ}.step_policy:_timeouts", '("timeouts",)', '("timeouts", "resources")'),
    ),
    "hints of a loop are ignored": Mutant(
        ("V10 §5.3",), LATER,
        Edit(f"{READ}.loops:_spec", '("exec", "mode", "max_in_flight")',
             '("exec", "mode", "max_in_flight", "ordering")'),
    ),
    "output has no body": Mutant(
        ("Words of today",), f"{TODAY}::test_output_is_what_the_task_came_to_in_its_rules_and_its_set",
        Edit("shared.dsl.lower.today.names:_output", '"body": f"{view}.data", ', ""),
    ),
    "an end that no arc names is left out": Mutant(
        ("An `end` that no arc names",),
        "tests/unit/dsl/lower/test_last_step.py::test_a_step_without_next_leads_to_an_end_that_no_arc_names",
        Edit("shared.dsl.lower.today.last_step:lead_to_the_end", 'get(each, "next") is None and get', "False and get"),
    ),
    "the clock of a workload is another one": Mutant(
        ("Clock",), f"{TODAY}::test_the_time_of_a_decision_is_in_its_record",
        Edit("shared.engine.routing.workload:merge_workload", "**whole_scope(execution_id, found), NOW: ts}",
             '**whole_scope(execution_id, found), NOW: "2000-01-01T00:00:00Z"}'),
    ),
}
