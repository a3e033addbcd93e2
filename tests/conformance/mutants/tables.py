"""All mutants by their names. Those that need no stack are CI's."""

from tests.conformance.mutants import dsl2, fs, fx, on_stack, v10
from tests.conformance.mutants.mutant import Mutant

QUICK: dict[str, Mutant] = {**v10.MUTANTS, **dsl2.MUTANTS, **fx.MUTANTS, **fs.MUTANTS}
EVERY: dict[str, Mutant] = {**QUICK, **on_stack.MUTANTS}
assert len(EVERY) == sum(len(each.MUTANTS) for each in (v10, dsl2, fx, fs, on_stack)), "two mutants have one name"
