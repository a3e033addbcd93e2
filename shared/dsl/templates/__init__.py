"""The expression language: parsing, compiling, evaluating within budgets, and its forms for SQL and shells."""
