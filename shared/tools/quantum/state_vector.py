"""A circuit computed by its state vector: 2ⁿ amplitudes, one gate at a time. Pure; its caller pauses between gates."""

import cmath
import math
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from random import Random

from shared.tools.quantum.circuit import Circuit, Gate

Matrix = tuple[complex, complex, complex, complex]
_ROOT = 1 / math.sqrt(2)
_FIXED: dict[str, Matrix] = {
    "id": (1, 0, 0, 1), "x": (0, 1, 1, 0), "y": (0, -1j, 1j, 0), "z": (1, 0, 0, -1),
    "h": (_ROOT, _ROOT, _ROOT, -_ROOT), "s": (1, 0, 0, 1j), "sdg": (1, 0, 0, -1j),
    "t": (1, 0, 0, cmath.exp(1j * math.pi / 4)), "tdg": (1, 0, 0, cmath.exp(-1j * math.pi / 4)),
    "sx": (0.5 + 0.5j, 0.5 - 0.5j, 0.5 - 0.5j, 0.5 + 0.5j),
}


def advance(circuit: Circuit) -> Iterator[list[complex]]:
    """The state at the beginning and after each gate; it is the same list, changed."""
    state = [0j] * (1 << circuit.qubits)
    state[0] = 1 + 0j
    yield state
    for gate in circuit.gates:
        _apply(state, gate)
        yield state


def sample(state: list[complex], circuit: Circuit, shots: int, seed: int) -> dict[str, int]:
    """What so many measurements give: the same for the same seed."""
    sums = list(accumulate(abs(amplitude) ** 2 for amplitude in state))
    random, last = Random(seed), len(state) - 1
    found: dict[int, int] = {}
    for _ in range(shots):
        index = min(bisect(sums, random.random() * sums[-1]), last)
        found[index] = found.get(index, 0) + 1
    counts: dict[str, int] = {}
    for index, count in found.items():
        text = "".join(str(index >> qubit & 1) for qubit in reversed(circuit.measured))
        counts[text] = counts.get(text, 0) + count
    return dict(sorted(counts.items()))


def _apply(state: list[complex], gate: Gate) -> None:
    if gate.name == "swap":
        a, b = gate.qubits
        for control, target in ((a, b), (b, a), (a, b)):
            _change(state, _FIXED["x"], target, 1 << control)
        return
    controls = {"ccx": 2}.get(gate.name, 1 if len(gate.qubits) == 2 else 0)
    mask = sum(1 << qubit for qubit in gate.qubits[:controls])
    _change(state, _matrix(gate.name[controls:] if controls else gate.name, gate.angles), gate.qubits[-1], mask)


def _change(state: list[complex], matrix: Matrix, target: int, controls: int) -> None:
    a, b, c, d = matrix
    bit = 1 << target
    for low in range(len(state)):
        if low & bit or low & controls != controls:
            continue
        zero, one = state[low], state[low | bit]
        state[low], state[low | bit] = a * zero + b * one, c * zero + d * one


def _matrix(name: str, angles: tuple[float, ...]) -> Matrix:
    if name in _FIXED:
        return _FIXED[name]
    match name:
        case "rx":
            return _turn(angles[0], -math.pi / 2, math.pi / 2)
        case "ry":
            return _turn(angles[0], 0, 0)
        case "rz":
            half = cmath.exp(0.5j * angles[0])
            return 1 / half, 0, 0, half
        case "p" | "u1":
            return 1, 0, 0, cmath.exp(1j * angles[0])
        case "u2":
            return _turn(math.pi / 2, *angles)
    return _turn(*angles)  # u, u3


def _turn(theta: float, phi: float, lam: float) -> Matrix:
    cos, sin = math.cos(theta / 2), math.sin(theta / 2)
    return cos, -cmath.exp(1j * lam) * sin, cmath.exp(1j * phi) * sin, cmath.exp(1j * (phi + lam)) * cos
