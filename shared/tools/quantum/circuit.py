"""A circuit as data: gates on qubits, and which of them are measured. Everything is bounded before it is simulated."""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.tools.base.guard import BadCall

MAX_QUBITS = 12
MAX_GATES = 1_000
MAX_SHOTS = 100_000
MAX_TEXT = 32_768  # characters of a circuit as OpenQASM
# gate: (qubits, angles)
GATES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("id", "x", "y", "z", "h", "s", "sdg", "t", "tdg", "sx"), (1, 0)),
    **dict.fromkeys(("rx", "ry", "rz", "p", "u1"), (1, 1)), "u2": (1, 2), "u3": (1, 3), "u": (1, 3),
    **dict.fromkeys(("cx", "cy", "cz", "ch", "swap"), (2, 0)),
    **dict.fromkeys(("crx", "cry", "crz", "cp", "cu1"), (2, 1)),
    "ccx": (3, 0),
}


class Gate(Struct, frozen=True, array_like=True):
    name: str
    qubits: tuple[int, ...]
    angles: tuple[float, ...] = ()


class Circuit(Struct, frozen=True, array_like=True):
    """`measured` are the qubits that are read, each as the classical bit at its place."""

    qubits: int
    gates: tuple[Gate, ...]
    measured: tuple[int, ...]


def checked(circuit: Circuit) -> Circuit:
    """The circuit, whoever made it, within all limits."""
    if not 1 <= circuit.qubits <= MAX_QUBITS:
        raise BadCall(f"a circuit has 1 to {MAX_QUBITS} qubits here, not {circuit.qubits}")
    if len(circuit.gates) > MAX_GATES:
        raise BadCall(f"{len(circuit.gates)} gates, over the limit of {MAX_GATES}")
    for gate in circuit.gates:
        if gate.name not in GATES:
            raise BadCall(f"there is no gate {gate.name[:40]!r}; known: {', '.join(sorted(GATES))}")
        if (len(gate.qubits), len(gate.angles)) != GATES[gate.name]:
            raise BadCall("gate {} takes {} qubits and {} angles".format(gate.name, *GATES[gate.name]))
        if len(set(gate.qubits)) != len(gate.qubits) or not all(0 <= each < circuit.qubits for each in gate.qubits):
            raise BadCall(f"gate {gate.name} is on qubits {list(gate.qubits)} of a circuit with {circuit.qubits}")
        if not all(map(math.isfinite, gate.angles)):
            raise BadCall(f"an angle of gate {gate.name} is not a number")
    if not circuit.measured or len(set(circuit.measured)) != len(circuit.measured) \
            or not all(0 <= each < circuit.qubits for each in circuit.measured):
        raise BadCall(f"what is measured must be qubits of the circuit, each once, not {list(circuit.measured)[:20]}")
    return circuit


def shots_of(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SHOTS:
        raise BadCall(f"shots must be a whole number from 1 to {MAX_SHOTS}")
    return value
