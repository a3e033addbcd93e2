"""The faults a case can be run under, in the order of the fields of `Chance`; light, because `--help` names them."""

FAULTS = ("crash", "dup", "reorder")
