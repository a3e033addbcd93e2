"""Section by section from nodes to the plan: each module reads one part of the canonical form and reports what is wrong
with it."""
