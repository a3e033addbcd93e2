"""What helps an author: the formatter, explanations, the JSON Schema, diagrams."""
