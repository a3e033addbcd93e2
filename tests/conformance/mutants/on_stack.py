"""Clauses that only a whole stack shows, each taken away. Not in CI: `python -m tests.conformance.mutants --stack`."""

from tests.conformance.mutants.mutant import Edit, Mutant

ON_LOG = "tests/conformance/test_log_on_stack.py"
ON_STACK = "tests/conformance/test_language_on_stack.py"

MUTANTS: dict[str, Mutant] = {
    "the time of an event has no zone": Mutant(
        ("DSL2 §9.3", "FX §9.1", "FS §12.1"), f"{ON_LOG}::test_every_event_has_the_whole_envelope",
        Edit("shared.events.record:envelopes", '"ts": record.ts,', '"ts": record.ts[:19],'),
    ),
    "events of workers are the server's": Mutant(
        ("DSL2 §9.2", "FX §10.2", "FS §13.2"), f"{ON_LOG}::test_server_and_worker_write_the_events_that_are_theirs",
        Edit("shared.events.record:envelopes", '"server" if record.lease is None else "worker"', '"server"'),
    ),
    "an outcome does not say which attempt it is": Mutant(
        ("DSL2 §5.3",), f"{ON_LOG}::test_every_outcome_has_status_meta_and_an_error_that_says_kind_and_retryable",
        Edit("shared.engine.pipeline.call:judged", '"attempt": progress.attempt,', '"attempt": 0,'),
    ),
    "a request gets the newest version": Mutant(
        ("FS §3.1",), f"{ON_LOG}::test_a_request_names_a_path_and_a_version_or_gets_the_last_one",
        Edit("shared.runtime.stores.catalog:find", "key_of(path, version)", 'key_of(path, "")'),
    ),
    "a secret stands in the log": Mutant(
        ("V10 §2.1", "Keychain"), f"{ON_LOG}::test_a_secret_reaches_its_tools_and_no_event_log_line_or_table",
        Edit("shared.engine.values.redaction:Secrets.cleaned", "if found := self._found(data):", "if found := []:"),
    ),
    "a missing credential is found out late": Mutant(
        ("V10 §2.1", "FX §4.1"),
        "tests/conformance/requests/test_before_the_first_step.py::"
        "test_what_is_missing_ends_an_execution_before_its_first_step",
        Edit("services.router.grounds:Grounds._unready", "await self._readiness.unready(plan)", "None"),
    ),
    "every result is in the log": Mutant(
        ("V10 §5.1", "V10 §10", "DSL2 §10.1", "Large results"),
        f"{ON_STACK}::test_max_payload_bytes_says_what_is_large",
        Edit("shared.engine.pipeline.machine:RunMachine.__init__", "lease, step.max_payload_bytes)",
             "lease, 1_000_000)"),
    ),
    "a step may take any time": Mutant(
        ("V10 §5.2.2", "Timeouts"), f"{ON_STACK}::test_a_step_over_its_time_fails_with_kind_timeout[timeout]",
        Edit("shared.engine.pipeline.call:limits", "if step.timeout_s is not None and", "if False and"),
    ),
    "a worker listens": Mutant(
        ("FX §10.2",), f"{ON_LOG}::test_a_worker_needs_no_port_of_its_own",
        Edit("services.worker.service:serve", "    tools = Tools(",
             "    await asyncio.start_server(lambda *_: None, '127.0.0.1', 0)\n    tools = Tools("),
    ),
    "events can be deleted": Mutant(
        ("FX §10.1",), "tests/integration/test_streams.py::test_an_event_stream_offers_no_way_around_a_permission",
        Edit("shared.bus.streams:_stream", '"deny_delete": stream.sealed', '"deny_delete": False'),
    ),
}
