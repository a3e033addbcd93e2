"""A circuit as an author gives it: OpenQASM, or a mapping."""

from collections.abc import Mapping
from typing import Any

from shared.tools.base.guard import BadCall
from shared.tools.quantum.circuit import MAX_GATES, MAX_QUBITS, Circuit, Gate, checked
from shared.tools.quantum.qasm import parse

_SHAPE = "a circuit is OpenQASM 2.0, or {qubits: 2, gates: [{gate: h, qubits: [0]}], measure: [0, 1]}"


def circuit_of(value: Any) -> Circuit:
    if isinstance(value, str):
        return checked(parse(value))
    if not isinstance(value, Mapping) or not {"qubits", "gates"} <= value.keys() <= {"qubits", "gates", "measure"}:
        raise BadCall(_SHAPE)
    gates, qubits = value["gates"], value["qubits"]
    if not isinstance(gates, list) or type(qubits) is not int:
        raise BadCall(_SHAPE)
    if len(gates) > MAX_GATES:
        raise BadCall(f"{len(gates)} gates, over the limit of {MAX_GATES}")
    measured = value.get("measure")
    wanted = range(min(qubits, MAX_QUBITS + 1)) if measured is None else measured
    if not isinstance(wanted, list | range) or any(type(each) is not int for each in wanted):
        raise BadCall("measure is a list of qubits, such as [0, 1]")
    return checked(Circuit(qubits, tuple(map(_gate, gates)), tuple(wanted)))


def _gate(value: Any) -> Gate:
    if not isinstance(value, Mapping) or not {"gate", "qubits"} <= value.keys() <= {"gate", "qubits", "angles"}:
        raise BadCall("a gate is {gate: h, qubits: [0]}, with angles: [1.57] where it has some")
    qubits, angles = value["qubits"], value.get("angles", [])
    if not isinstance(qubits, list) or any(type(each) is not int for each in qubits):
        raise BadCall("the qubits of a gate are a list of whole numbers")
    if not isinstance(angles, list) or any(type(each) not in (int, float) for each in angles):
        raise BadCall("the angles of a gate are a list of numbers")
    return Gate(str(value["gate"]).lower(), tuple(qubits), tuple(map(float, angles)))
