"""OpenQASM 2.0, as far as a circuit of known gates that is measured at its end needs it."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

from shared.tools.base.guard import BadCall
from shared.tools.quantum.circuit import MAX_GATES, MAX_QUBITS, MAX_TEXT, Circuit, Gate

_COMMENT = re.compile(r"//[^\n]*")
_REGISTER = re.compile(r"(qreg|creg)\s+(\w+)\s*\[\s*(\d{1,4})\s*\]\Z")
_MEASURE = re.compile(r"measure\s+(.+?)\s*->\s*(.+)\Z", re.DOTALL)
_GATE = re.compile(r"([A-Za-z]\w*)\s*(?:\((.*)\))?\s*(\w.*)\Z", re.DOTALL)
_BIT = re.compile(r"(\w+)\s*(?:\[\s*(\d{1,4})\s*\])?\Z")
_REFUSED = ("gate", "opaque", "if", "reset")
_OTHER = {"CX": "cx", "U": "u3"}
_MAX_ANGLE = 200  # characters
_SIGNS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class _Registers:
    """The registers of one kind, as one row of bits."""

    def __init__(self) -> None:
        self.size = 0
        self._at: dict[str, tuple[int, int]] = {}

    def add(self, name: str, size: int) -> None:
        if name in self._at or size < 1 or self.size + size > 1_000:
            raise BadCall(f"register {name[:40]} is there twice, is empty or is too large")
        self._at[name] = self.size, size
        self.size += size

    def bits(self, text: str) -> list[int]:
        """One bit, or those of a whole register."""
        found = _BIT.match(text.strip())
        if found is None or found[1] not in self._at:
            raise BadCall(f"there is no register for {text.strip()[:40]!r}")
        start, size = self._at[found[1]]
        if found[2] is None:
            return list(range(start, start + size))
        if int(found[2]) >= size:
            raise BadCall(f"{text.strip()[:40]!r} is outside of its register")
        return [start + int(found[2])]


def parse(text: str) -> Circuit:
    if len(text) > MAX_TEXT:
        raise BadCall(f"a circuit of {len(text)} characters, over the limit of {MAX_TEXT}")
    qubits, bits = _Registers(), _Registers()
    gates: list[Gate] = []
    measured: dict[int, int] = {}  # classical bit: qubit
    statements = [each.strip() for each in _COMMENT.sub("", text).split(";")]
    if not re.match(r"OPENQASM\s+2\.0\Z", statements[0]):
        raise BadCall("a circuit as text begins with OPENQASM 2.0;")
    for statement in filter(None, statements[1:]):
        _statement(statement, qubits, bits, gates, measured)
    if qubits.size > MAX_QUBITS:
        raise BadCall(f"a circuit has 1 to {MAX_QUBITS} qubits here, not {qubits.size}")
    ordered = tuple(measured[bit] for bit in sorted(measured)) or tuple(range(qubits.size))
    return Circuit(qubits.size, tuple(gates), ordered)


def _statement(
    text: str, qubits: _Registers, bits: _Registers, gates: list[Gate], measured: dict[int, int]
) -> None:
    word = text.split(None, 1)[0].partition("(")[0]
    if word in ("include", "barrier"):
        return
    if word in _REFUSED:
        raise BadCall(f"{word} is not supported: gates, and measure at the end")
    if found := _REGISTER.match(text):
        (qubits if found[1] == "qreg" else bits).add(found[2], int(found[3]))
    elif found := _MEASURE.match(text):
        read, into = qubits.bits(found[1]), bits.bits(found[2])
        if len(read) != len(into):
            raise BadCall(f"{text[:60]!r} measures registers of different sizes")
        measured.update(zip(into, read, strict=True))
    else:
        _gates(text, qubits, gates, set(measured.values()))


def _gates(text: str, qubits: _Registers, gates: list[Gate], measured: set[int]) -> None:
    """A gate on a whole register is one on each of its qubits."""
    found = _GATE.match(text)
    if found is None:
        raise BadCall(f"{text[:60]!r} cannot be read")
    angles = tuple(angle(each) for each in found[2].split(",")) if found[2] and found[2].strip() else ()
    operands = [qubits.bits(each) for each in found[3].split(",")]
    width = max(map(len, operands))
    if any(len(each) not in (1, width) for each in operands):
        raise BadCall(f"{text[:60]!r} is on registers of different sizes")
    for index in range(width):
        on = tuple(each[index if len(each) > 1 else 0] for each in operands)
        if measured & set(on):
            raise BadCall(f"{text[:60]!r} is on a qubit that was measured before")
        if len(gates) >= MAX_GATES:
            raise BadCall(f"over {MAX_GATES} gates")
        gates.append(Gate(_OTHER.get(found[1], found[1].lower()), on, angles))


def angle(text: str) -> float:
    """A number, pi, and + - * / of them."""
    if len(text) > _MAX_ANGLE:
        raise BadCall("the angle of a gate is too long")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        raise BadCall(f"{text.strip()[:40]!r} is not an angle: write numbers, pi, + - * / and brackets") from None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(left), _value(right))
    raise ValueError("not an angle")
