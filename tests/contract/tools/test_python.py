"""`kind: python`: what code may look like, and what happens to its process."""

import asyncio
import os
import statistics
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
from msgspec.structs import replace

from shared.tools.base.contract import Printing
from shared.tools.python import child as python_child
from shared.tools.python import code as python_code
from tests.support.calls import call, recorded
from tests.support.processes import gone, running, written
from tests.support.waiting import until


async def _run(tool, code: str, _timeout: float = 20.0, **config: Any):
    return await tool.run(call({"code": textwrap.dedent(code), **config}, timeout_s=_timeout))


@pytest.mark.parametrize(("code", "result"), [
    ("result = x + 1", 3),
    ("return x + 1", 3),
    ("x += 1\nreturn x", 3),
    ("if x == 2:\n    return 'two'\nresult = 'other'", "two"),
    ("if x == 3:\n    return 'three'\nresult = 'other'", "other"),
    ("def main(x, y=5):\n    return [x, y]", [2, 5]),
    ("def main(**given):\n    return given", {"x": 2}),
    ("def main(input_data):\n    return input_data", {"x": 2}),
    ("def main(x, input_data=None):\n    return [x, input_data]", [2, {"x": 2}]),
    ("result = input_data.get('x')", 2),
    ("return input_data", {"x": 2}),
    ("result = args['x'] + args.get('y', 1)", 3),
    ("def main(args):\n    return args", {"x": 2}),
    ("async def main(x):\n    import asyncio\n    await asyncio.sleep(0)\n    return x * 2", 4),
    ("def main():\n    return 1\nresult = 2", 2),
    ("def main():\n    return 1\nif x == 9:\n    return 9", 1),
    ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nreturn f(5)", 120),
    ("from __future__ import annotations\nreturn x", 2),
    ("from dataclasses import dataclass\n@dataclass\nclass P:\n    a: 'int'\nresult = P(x)", {"a": 2}),
    ("y = [x for _ in range(2)]", None),
    ("result = [datetime.date(2024, 2, x).isoformat(), json.dumps(x), os.path.join('a', 'b'), uuid.UUID(int=x).int]",
     ["2024-02-02", "2", "a/b", 2]),
    ("return [json.dumps(x) for _ in '1']", ["2"]),
])
async def test_code_gives_its_result_in_every_accepted_form(opened, code, result) -> None:
    outcome = await _run(opened("python"), code, args={"x": 2})
    assert (outcome.error, outcome.result, outcome.py) == (None, result, {"exception_type": None})


@pytest.mark.parametrize(("result", "shape"), [
    ({"status": "success", "data": {"n": 1}}, "envelope"), ({"status": "x", "data": {}, "error": None}, "envelope"),
    ({"status": "success", "data": [1]}, "value"), ({"data": {"n": 1}}, "value"), ([1], "value"),
    ({"status": "success", "data": {"n": 1}, "more": 2}, "value"),
])
async def test_an_envelope_that_a_program_makes_is_known_as_one(opened, result, shape) -> None:
    """FS §8.3: status, data, error and meta."""
    outcome = await _run(opened("python"), f"result = {result!r}")
    assert (outcome.result, outcome.shape) == (result, shape)


async def test_values_are_encoded_as_json_encodes_them(opened) -> None:
    outcome = await _run(opened("python"), """
        import datetime, decimal, uuid
        result = [datetime.date(2024, 1, 2), decimal.Decimal("1.50"), uuid.UUID(int=0), b"ab", (1, 2), {3}]
    """)
    assert outcome.result == ["2024-01-02", "1.50", "00000000-0000-0000-0000-000000000000", "YWI=", [1, 2], [3]]


@pytest.mark.parametrize(("code", "where"), [
    ("result = float('nan')", "result is nan"),
    ("result = {'rows': [{'a b': 1}, {'a b': float('inf')}], 'none': None}", "result.rows[1]['a b'] is inf"),
    ("result = [None, (1.5, -float('inf'))]", "result[1][1] is -inf"),
    ("from dataclasses import dataclass\n@dataclass\nclass P:\n    a: float\nresult = P(float('nan'))",
     "result.a is nan"),
    ("result = 10**400", "result is an integer of over 64 bits"),
    ("result = {'x': [1, -2**63 - 1]}", "result.x[1] is an integer of over 64 bits"),
    ("value = [float('nan')]\nfor _ in range(500): value = [value]\nresult = value", "result[0][0]"),
])
async def test_a_number_that_json_cannot_hold_fails_and_names_its_place(opened, code, where) -> None:
    outcome = await _run(opened("python"), code)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("result", False)
    assert f"the result is not JSON: {where}" in outcome.error["message"]
    assert len(outcome.error["message"]) < 400


async def test_numbers_of_64_bits_and_nulls_are_results_as_they_are(opened) -> None:
    outcome = await _run(opened("python"), """
        result = [None, {"null": None}, -2**63, 2**64 - 1, 1e308, 5e-324, "null", "9" * 30, {"1" * 25: None}]
    """)
    assert outcome.result == [None, {"null": None}, -2**63, 2**64 - 1, 1e308, 5e-324, "null", "9" * 30,
                              {"1" * 25: None}]


@pytest.mark.parametrize(("raised", "said"), [
    ("class E(Exception):\n    def __str__(self): raise ValueError('x')\nraise E", "E: its text cannot be read"),
    ("class E(Exception):\n    def __str__(self): return 5\nraise E", "E: its text cannot be read"),
    ("class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E", "E: its text cannot be read"),
    ("class E(Exception):\n    def __repr__(self): raise ValueError\n    __str__ = __repr__\nraise E from E()",
     "E: its text cannot be read"),
    ("raise ValueError('\\udc80 here')", "ValueError: ? here"),
    ("class E(Exception):\n    @property\n    def __notes__(self): raise ValueError\nraise E('x')", "E: x"),
])
async def test_an_error_whose_text_cannot_be_made_is_the_code_s_own(opened, raised, said) -> None:
    outcome = await _run(opened("python"), raised)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("python", False)
    assert outcome.error["message"] == said
    assert outcome.py["exception_type"] in ("E", "ValueError")
    assert "python_code.py" not in outcome.py["traceback"]  # where ours is, is nobody's business


async def test_a_long_text_of_an_error_is_cut(opened) -> None:
    outcome = await _run(opened("python"), "raise ValueError('x' * 50_000_000)")
    assert outcome.error["kind"] == "python"
    assert len(outcome.error["message"]) < 2 * python_code.MESSAGE_LIMIT


async def test_output_that_is_no_text_for_utf_8_does_not_end_the_call(opened) -> None:
    outcome = await _run(opened("python"), "print('\\udc80 here')\nresult = 1")
    assert (outcome.error, outcome.result, outcome.meta["stdout"]) == (None, 1, "? here\n")


async def test_a_result_that_is_not_json_names_the_type(opened) -> None:
    outcome = await _run(opened("python"), "class Thing: pass\nresult = Thing()")
    assert outcome.error["kind"] == "result"
    assert "Thing" in outcome.error["message"]


async def test_an_exception_gives_its_type_and_the_lines_of_the_code(opened) -> None:
    outcome = await _run(opened("python"), "x = 1\n\ndef f():\n    raise KeyError('k')\n\nreturn f()")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("python", False)
    assert outcome.py["exception_type"] == "KeyError"
    assert "line 6" in outcome.py["traceback"]
    assert "raise KeyError('k')" in outcome.py["traceback"]
    assert "python_code.py" not in outcome.py["traceback"]


@pytest.mark.parametrize(("code", "kind"), [("x = (", "SyntaxError"), ("import sys; sys.exit(3)", "SystemExit"),
                                            ("import no_such_module", "ModuleNotFoundError")])
async def test_code_that_cannot_run_is_a_python_error(opened, code, kind) -> None:
    outcome = await _run(opened("python"), code)
    assert outcome.py["exception_type"] == kind


async def test_libs_are_imported_by_name_and_alias(opened) -> None:
    tool = opened("python")
    assert (await _run(tool, "result = m.sqrt(4)", libs={"m": "math"})).result == 2.0
    assert (await _run(tool, "result = os.path.basename('a/b')", libs=["os.path", "json"])).result == "b"
    missing = await _run(tool, "result = 1", libs=["no_such_module"])
    assert missing.py["exception_type"] == "ModuleNotFoundError"
    assert (await _run(tool, "result = 1", libs={}, auth={})).result == 1


async def test_a_package_by_the_name_it_is_installed_by_has_to_be_there(opened) -> None:
    tool = opened("python")
    assert (await _run(tool, "import yaml\nresult = 1", libs=["pytest-asyncio", "PyYAML"])).result == 1
    missing = await _run(tool, "result = 1", libs=["no-such-package>=2"])
    assert missing.error is not None
    assert "No module named 'no-such-package>=2'" in missing.error["message"]


async def test_output_is_captured_and_bounded(opened) -> None:
    tool = opened("python")
    outcome = await _run(tool, "import os, sys\nprint('one')\nprint('two', file=sys.stderr)\nos.system('echo three')")
    assert outcome.meta["stdout"].split() == ["one", "two", "three"]
    assert (await _run(tool, "result = 1")).meta == {}
    long = (await _run(tool, "print('x' * 1_000_000)\nprint('last words')")).meta["stdout"]
    assert python_child.OUTPUT_LIMIT < len(long) < python_child.OUTPUT_LIMIT + 100
    assert "bytes left out" in long
    assert long.endswith("x\nlast words\n")
    endless = (await _run(tool, f"print('x' * {python_child.FILE_LIMIT + 5}, end='')")).meta["stdout"]
    assert endless.endswith("x\n… 5 more characters")


async def test_the_credential_is_a_variable_and_never_shows_in_errors(opened) -> None:
    given = call({"code": "print(auth['token'])\nraise ValueError(auth['token'])"}, auth={"token": "tok-secret"})
    outcome = recorded(await opened("python").run(given), given)
    assert outcome.py["exception_type"] == "ValueError"
    assert "tok-secret" not in repr(outcome)


async def test_the_settings_of_the_worker_are_not_visible(opened, monkeypatch) -> None:
    monkeypatch.setenv("NOETL_NATS_PASSWORD", "hidden")
    outcome = await _run(opened("python"), "import os\nresult = [n for n in os.environ if n.startswith('NOETL_')]")
    assert outcome.result == []


async def test_a_process_that_dies_is_a_crash_and_is_replaced(opened) -> None:
    tool = opened("python")
    outcome = await _run(tool, "import os\nos.system('echo last words')\nos._exit(7)")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("crash", True)
    assert "exit code 7" in outcome.error["message"]
    assert "last words" in outcome.error["message"]
    assert outcome.py == {"exception_type": None}
    assert (await _run(tool, "result = 1")).result == 1


async def test_what_was_printed_before_a_crash_is_kept(opened) -> None:
    tool = opened("python")
    outcome = await _run(tool, "import os\nprint('loaded 17 rows')\nprint('about to fail')\nos._exit(9)")
    assert outcome.error["message"] == "the process ended with exit code 9: about to fail"
    assert outcome.meta["stdout"] == "loaded 17 rows\nabout to fail\n"
    assert "stdout" not in (await _run(tool, "result = 1")).meta


async def test_what_was_printed_before_the_time_was_over_is_kept(opened) -> None:
    outcome = await _run(opened("python"), "print('reading')\nwhile True: pass", _timeout=2.0)
    assert (outcome.error["kind"], outcome.meta["stdout"]) == ("timeout", "reading\n")


async def test_code_that_closes_its_output_is_heard_all_the_same(opened) -> None:
    tool = opened("python")
    outcome = await _run(tool, "import os\nprint('one')\nos.close(1)\nprint('two')\nresult = 1")
    assert (outcome.error, outcome.meta["stdout"]) == (None, "one\ntwo\n")


async def test_a_process_that_died_while_idle_is_not_used(opened) -> None:
    tool = opened("python")
    pid = (await _run(tool, "import os\nresult = os.getpid()")).result
    os.kill(pid, 9)
    await asyncio.sleep(0.2)
    assert (await _run(tool, "result = 1")).result == 1


async def test_a_timeout_kills_the_process_and_all_it_started(opened, tmp_path) -> None:
    pids = tmp_path / "pids"
    outcome = await _run(opened("python"), f"""
        import os, subprocess, time
        other = subprocess.Popen(["sleep", "60"])
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{other.pid}}")
        while True: pass
    """, _timeout=1.5)
    assert outcome.error["kind"] == "timeout"
    await asyncio.sleep(0.2)
    assert [running(int(pid)) for pid in pids.read_text().split()] == [False, False]


async def test_closing_ends_a_running_call_and_its_process(opened) -> None:
    tool = opened("python")
    pid = (await _run(tool, "import os\nresult = os.getpid()")).result
    calling = asyncio.create_task(_run(tool, "while True: pass"))
    await asyncio.sleep(0.2)
    await tool.close()
    assert (await calling).error["kind"] == "crash"
    assert not running(pid)


WORKER = """
import asyncio, sys
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.registry import open_tool
code = "import os\\nopen(file, 'w').write(str(os.getpid()))\\nwhile True: pass"
call = Call({"code": code, "args": {"file": sys.argv[1]}}, {}, None, "k", 60.0)
asyncio.run(open_tool("python", ToolOptions(temp_folder=sys.argv[2])).run(call))
"""


def test_a_process_does_not_outlive_a_worker_that_is_killed(tmp_path) -> None:
    file = tmp_path / "pid"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(file), str(tmp_path)])
    try:
        pid = int(written(file))
    finally:
        worker.kill()
        worker.wait()
    assert gone(pid)


async def test_calls_share_a_warm_process_but_not_their_names(opened) -> None:
    tool = opened("python")
    first = await _run(tool, "import os\nleft = 1\nresult = os.getpid()")
    second = await _run(tool, "import os\nresult = [os.getpid(), 'left' in globals()]")
    assert second.result == [first.result, False]


async def test_more_calls_than_processes_wait_their_turn(opened) -> None:
    tool = opened("python")
    outcomes = await asyncio.gather(*(_run(tool, "result = n", args={"n": n}) for n in range(20)))
    assert [outcome.result for outcome in outcomes] == list(range(20))


async def test_results_and_args_over_the_limit_are_refused(opened) -> None:
    tool = opened("python")
    assert (await _run(tool, "result = 'x' * (32 << 20)")).error["kind"] == "limit"
    assert (await _run(tool, "result = 1", args={"x": "x" * (34 << 20)})).error["kind"] == "limit"
    assert len((await _run(tool, "result = x", args={"x": "x" * (8 << 20)})).result) == 8 << 20


async def test_a_call_on_a_warm_process_costs_far_less_than_a_millisecond(opened) -> None:
    tool = opened("python")
    times = []
    for n in range(300):
        started = time.perf_counter()
        await _run(tool, "result = n + 1", args={"n": n})
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < 0.002  # measured: about 0.3 ms; room for a busy machine


async def test_a_call_that_is_cut_short_leaves_what_it_printed(opened) -> None:
    given = replace(call({"code": "print('reading', flush=True)\nwhile True: pass"}), printing=Printing())
    running_call = asyncio.create_task(opened("python").run(given))
    said = {"stdout": "reading\n"}
    await until(lambda: given.printing.so_far and given.printing.so_far(100) == said, "it is heard while it runs")
    assert given.printing.so_far(4) == {"stdout": "ing\n"}
    running_call.cancel()
    await asyncio.wait({running_call})
    assert (running_call.cancelled(), given.printing.stopped.meta) == (True, said)
    assert given.printing.so_far is None
