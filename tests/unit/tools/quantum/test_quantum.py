"""Circuits, their limits, what the simulator makes of them, and jobs that any worker can answer for."""

import base64
import math
import zlib
from typing import Any

import msgspec
import pytest

from shared.events.outcome import Outcome
from shared.tools.base.contract import ToolOptions
from shared.tools.base.guard import BadCall
from shared.tools.quantum.circuit import MAX_GATES, MAX_QUBITS, MAX_SHOTS, MAX_TEXT, Circuit, Gate
from shared.tools.quantum.given import circuit_of
from shared.tools.quantum.local import MAX_ID, MAX_JOB
from shared.tools.quantum.qasm import angle, parse
from shared.tools.quantum.state_vector import advance, sample
from shared.tools.quantum.tool import DEFAULT_SHOTS, QuantumTool
from tests.support.calls import call

BELL = "OPENQASM 2.0; include \"qelib1.inc\"; qreg q[2]; creg c[2]; h q[0]; cx q[0],q[1]; measure q -> c;"


def text(body: str, qubits: int = 2) -> str:
    return f"OPENQASM 2.0; qreg q[{qubits}]; creg c[{qubits}]; {body}"


def state_after(circuit: Circuit) -> list[complex]:
    *_, last = advance(circuit)
    return last


def near(state: list[complex], wanted: list[complex]) -> bool:
    """Up to a phase, which nobody can measure."""
    at = max(range(len(wanted)), key=lambda index: abs(wanted[index]))
    turn = state[at] / wanted[at]
    return abs(abs(turn) - 1) < 1e-9 and all(
        abs(a - b * turn) < 1e-9 for a, b in zip(state, wanted, strict=True))


async def ran(config: dict[str, Any], key: str = "run/task/1", stand_ins: tuple[str, ...] = ()) -> Outcome:
    return await QuantumTool(ToolOptions(quantum_stand_ins=stand_ins)).run(call(config, key=key))


async def good(config: dict[str, Any], key: str = "run/task/1", stand_ins: tuple[str, ...] = ()) -> Any:
    outcome = await ran(config, key, stand_ins)
    assert outcome.status == "ok", outcome.error
    return outcome.result


async def refusal(config: dict[str, Any]) -> str:
    outcome = await ran(config)
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)
    return str(outcome.error["message"])


# -- reading --------------------------------------------------------------------------------------


def test_both_ways_to_write_a_circuit_say_the_same() -> None:
    assert circuit_of(BELL) == circuit_of({"qubits": 2, "gates": [
        {"gate": "h", "qubits": [0]}, {"gate": "cx", "qubits": [0, 1]}]})


def test_a_gate_on_a_register_is_one_on_each_of_its_qubits() -> None:
    assert parse(text("h q; cx q[0], q[1]; // not this: x q;\n barrier q;")).gates == (
        Gate("h", (0,)), Gate("h", (1,)), Gate("cx", (0, 1)))


def test_measuring_says_which_bit_a_qubit_becomes() -> None:
    assert parse(text("measure q[0] -> c[1]; measure q[1] -> c[0];")).measured == (1, 0)


@pytest.mark.parametrize(("written", "value"), [
    ("pi/2", math.pi / 2), ("-pi", -math.pi), ("2*(pi+1)/4", (math.pi + 1) / 2), ("0.5", 0.5),
])
def test_angles_are_numbers_and_pi(written: str, value: float) -> None:
    assert angle(written) == pytest.approx(value)


@pytest.mark.parametrize("written", ["x", "2**9999", "__import__('os')", "1/0", "", "(" * 300, "'a'", "True", "pi()"])
def test_anything_else_is_no_angle(written: str) -> None:
    with pytest.raises(BadCall):
        angle(written)


@pytest.mark.parametrize(("circuit", "message"), [
    ("h q[0];", "begins with OPENQASM 2.0"),
    (text("teleport q[0];"), "there is no gate 'teleport'"),
    (text("h q[7];"), "outside of its register"),
    (text("h r[0];"), "no register"),
    (text("rx q[0];"), "gate rx takes 1 qubits and 1 angles"),
    (text("cx q[0], q[0];"), "gate cx is on qubits [0, 0]"),
    (text("measure q -> c; h q[0];"), "measured before"),
    (text("reset q[0];"), "reset is not supported"),
    (text("if (c==1) x q[0];"), "if is not supported"),
    (text("gate g a { h a; }"), "gate is not supported"),
    (text("rx(1e999) q[0];"), "not a number"),
    ("OPENQASM 2.0; qreg q[1]; qreg q[1];", "there twice"),
    ({"qubits": 1}, "a circuit is OpenQASM 2.0, or"),
    ({"qubits": 1, "gates": [], "measure": [3]}, "must be qubits of the circuit"),
    ({"qubits": 1, "gates": [], "measure": "all"}, "measure is a list"),
    ({"qubits": 1, "gates": [["h", 0]]}, "a gate is {gate: h"),
    ({"qubits": 1, "gates": [{"gate": "h", "qubits": 0}]}, "list of whole numbers"),
    ({"qubits": 1, "gates": [{"gate": "rx", "qubits": [0], "angles": ["pi"]}]}, "list of numbers"),
    (5, "a circuit is OpenQASM 2.0, or"),
])  # fmt: skip
async def test_what_is_no_circuit_is_told(circuit: Any, message: str) -> None:
    assert message in await refusal({"circuit": circuit})


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "message"), [
    ({"circuit": text("h q[0];", MAX_QUBITS + 1)}, f"1 to {MAX_QUBITS} qubits"),
    ({"circuit": {"qubits": MAX_QUBITS + 1, "gates": []}}, f"1 to {MAX_QUBITS} qubits"),
    ({"circuit": {"qubits": 0, "gates": []}}, f"1 to {MAX_QUBITS} qubits"),
    ({"circuit": {"qubits": 10**9, "gates": []}}, f"1 to {MAX_QUBITS} qubits"),
    ({"circuit": text("h q[0];" * (MAX_GATES + 1))}, f"over {MAX_GATES} gates"),
    ({"circuit": {"qubits": 1, "gates": [{"gate": "x", "qubits": [0]}] * (MAX_GATES + 1)}},
     f"{MAX_GATES + 1} gates, over the limit of {MAX_GATES}"),
    ({"circuit": BELL + " " * MAX_TEXT}, f"over the limit of {MAX_TEXT}"),
    ({"circuit": BELL, "shots": 0}, f"from 1 to {MAX_SHOTS}"),
    ({"circuit": BELL, "shots": MAX_SHOTS + 1}, f"from 1 to {MAX_SHOTS}"),
    ({"circuit": BELL, "shots": "many"}, f"from 1 to {MAX_SHOTS}"),
    ({"circuit": BELL, "shots": True}, f"from 1 to {MAX_SHOTS}"),
])  # fmt: skip
async def test_every_limit_is_told(config: dict[str, Any], message: str) -> None:
    assert message in await refusal(config)


async def test_what_is_at_the_limits_is_taken() -> None:
    circuit = {"qubits": MAX_QUBITS, "gates": [{"gate": "x", "qubits": [0]}] * MAX_GATES, "measure": [0]}
    assert (await good({"circuit": circuit, "shots": MAX_SHOTS}))["shots"] == MAX_SHOTS


# -- the simulator --------------------------------------------------------------------------------

H = 1 / math.sqrt(2)


@pytest.mark.parametrize(("body", "state"), [
    ("", [1, 0, 0, 0]), ("x q[0];", [0, 1, 0, 0]), ("x q[1];", [0, 0, 1, 0]), ("h q[0];", [H, H, 0, 0]),
    ("h q[0]; cx q[0],q[1];", [H, 0, 0, H]), ("x q[0]; swap q[0],q[1];", [0, 0, 1, 0]),
    ("h q[0]; z q[0]; h q[0];", [0, 1, 0, 0]), ("h q[0]; s q[0]; s q[0]; h q[0];", [0, 1, 0, 0]),
    ("h q[0]; t q[0]; tdg q[0]; h q[0];", [1, 0, 0, 0]), ("sx q[0]; sx q[0];", [0, 1, 0, 0]),
    ("h q[0]; sdg q[0]; sdg q[0]; h q[0];", [0, 1, 0, 0]), ("id q[0]; y q[1];", [0, 0, 1, 0]),
    ("rx(pi) q[0];", [0, 1, 0, 0]), ("ry(pi/2) q[0];", [H, H, 0, 0]), ("rx(pi/2) q[0];", [H, -1j * H, 0, 0]),
    ("h q[0]; rz(pi) q[0]; h q[0];", [0, 1, 0, 0]), ("h q[0]; p(pi) q[0]; h q[0];", [0, 1, 0, 0]),
    ("u2(0,pi) q[0];", [H, H, 0, 0]), ("u3(pi,0,pi) q[0];", [0, 1, 0, 0]), ("U(pi,0,pi) q[0];", [0, 1, 0, 0]),
    ("x q[0]; ch q[0],q[1];", [0, H, 0, H]), ("x q[0]; cy q[0],q[1];", [0, 0, 0, 1]),
    ("x q[0]; h q[1]; cz q[0],q[1]; h q[1];", [0, 0, 0, 1]),
    ("x q[0]; h q[1]; cp(pi) q[0],q[1]; h q[1];", [0, 0, 0, 1]),
    ("x q[0]; crx(pi) q[0],q[1];", [0, 0, 0, 1]), ("x q[0]; cry(pi) q[0],q[1];", [0, 0, 0, 1]),
    ("cx q[0],q[1];", [1, 0, 0, 0]),
])  # fmt: skip
def test_gates_do_what_they_are_known_for(body: str, state: list[complex]) -> None:
    assert near(state_after(parse(text(body))), state)


def test_a_gate_with_two_controls_needs_both() -> None:
    for first in (0, 1):
        flips = "x q[0];" if first else ""
        state = state_after(parse(text(f"{flips} x q[1]; ccx q[0],q[1],q[2];", 3)))
        assert abs(state[0b111 if first else 0b010]) == pytest.approx(1)


def test_bits_are_written_with_the_last_one_first() -> None:
    circuit = parse(text("x q[0]; measure q -> c;"))
    assert sample(state_after(circuit), circuit, 5, 1) == {"01": 5}


def test_what_is_not_measured_does_not_show() -> None:
    circuit = parse(text("h q[0]; x q[1]; measure q[1] -> c[0];"))
    assert sample(state_after(circuit), circuit, 50, 1) == {"1": 50}


# -- jobs -----------------------------------------------------------------------------------------


async def test_a_job_that_is_repeated_has_the_same_counts_and_another_has_others() -> None:
    first, again = [await good({"circuit": BELL}, "run/task/1") for _ in range(2)]
    other = await good({"circuit": BELL}, "run/task/2")
    assert first == again
    assert first["job_id"] != other["job_id"]
    counts = [(await good({"op": "results", "job_id": each["job_id"]}, key))["counts"]
              for each, key in ((first, "a"), (again, "b"), (other, "c"))]
    assert counts[0] == counts[1] != counts[2]
    assert all(set(each) == {"00", "11"} and sum(each.values()) == DEFAULT_SHOTS for each in counts)
    assert all(abs(each["00"] - DEFAULT_SHOTS / 2) < 100 for each in counts)


async def test_any_worker_answers_for_a_job() -> None:
    job = (await good({"circuit": BELL, "shots": 7}))["job_id"]
    assert await good({"op": "status", "job_id": job}) == {"job_id": job, "provider": "local", "state": "DONE"}
    found = await good({"op": "results", "job_id": job})
    assert (found["shots"], sum(found["counts"].values())) == (7, 7)


def packed(job: Any) -> str:
    return "local:" + base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(job))).decode()


@pytest.mark.parametrize("job", [
    "", "local:", "local:nonsense", "nonsense", "local:" + "A" * (MAX_ID + 4), packed([1]), packed("x" * (MAX_JOB + 1)),
    packed([[40, [], [0]], 1, 1]), packed([[1, [], [0]], 10**9, 1]), packed([[1, [["evil", [0]]], [0]], 1, 1]),
])  # fmt: skip
@pytest.mark.parametrize("op", ["status", "results"])
async def test_a_job_that_nobody_submitted_is_told(job: str, op: str) -> None:
    assert await refusal({"op": op, "job_id": job})


async def test_a_job_is_of_one_provider() -> None:
    job = (await good({"circuit": BELL}))["job_id"]
    assert "of provider 'local', not 'ibm'" in await refusal({"op": "status", "job_id": job, "provider": "ibm"})


async def test_a_provider_that_is_not_there_is_told_with_how_to_add_one() -> None:
    message = await refusal({"circuit": BELL, "provider": "ibm"})
    assert message.startswith("there is no quantum provider 'ibm' here; known: local. One is added in shared/tools/")
    assert "NOETL_QUANTUM_STAND_INS" in message


async def test_the_simulator_stands_in_for_a_provider_where_it_is_said_so() -> None:
    job = (await good({"circuit": BELL, "provider": "ibm"}, stand_ins=("ibm",)))["job_id"]
    assert job.startswith("ibm:")
    assert (await good({"op": "results", "job_id": job}, stand_ins=("ibm",)))["counts"].keys() == {"00", "11"}


async def test_an_operation_that_is_not_there_is_told() -> None:
    assert "one of: submit, status, results" in await refusal({"op": "cancel"})
