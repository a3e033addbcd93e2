"""The texts in our own source, for tests that hold what may be said where."""

import ast
from collections.abc import Iterator

from tests.support.paths import ROOT


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module with its line, but for docstrings, which may say how something looks."""
    tree = ast.parse(source)
    said = {
        id(node.body[0].value) for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in said and isinstance(node.value, str | bytes):
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode(errors="replace")


def texts_in(*folders: str) -> Iterator[tuple[str, int, str]]:
    """Of all modules below them: the file from the root of the project, the line, the text."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for line, text in texts(file.read_text(encoding="utf-8")):
                yield file.relative_to(ROOT).as_posix(), line, text
