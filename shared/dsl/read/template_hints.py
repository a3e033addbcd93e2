"""What mends a template that cannot be read: by what is wrong with it, and its text. Messages are those of Jinja's
parser and of `shared/dsl/templates/compiler.py`."""

import re
from collections.abc import Callable, Iterable

from shared.dsl.templates.filters import FILTERS
from shared.dsl.templates.methods import METHODS
from shared.dsl.templates.tests import TESTS

Nearest = Callable[[str, Iterable[str]], str]

PLAIN = "a template is text with {{ expression }} in it"
TAGS = ("if", "elif", "else", "endif", "for", "endfor", "set", "endset")
LISTED = "docs/templates.md lists what there is"
# What people call a filter in other languages.
CALLED = {"len": "length", "size": "length", "json": "tojson", "to_json": "tojson", "parse_json": "fromjson",
          "str": "string", "strip": "trim", "uppercase": "upper", "lowercase": "lower", "keys": "list"}
_SIGNS = {
    "&": "write and", "!": "write not, or != to compare", "?": "write {{ this if condition else that }}",
    "$": "write the name without $", "'": "close the text with '", '"': 'close the text with "',
    "`": "write the text in '",
    "#": "a comment is {# … #}", **dict.fromkeys("“”„‘’", "write straight quotes: ' or \""),
}
# What is written so in Python, and how it is written here.
_PYTHON: tuple[tuple[str, str], ...] = (
    (r"[\[({][^\[({]*\bfor\s+\w+\s+in\b", "there are no comprehensions: use the filters map and select, or {% for %}"),
    (r"\blambda\b", "there are no functions of your own: use the filters map and select, or {% for %}"),
    (r"\bf(\"[^\"]*\"|'[^']*')", "there are no f-texts: join parts with ~"),
)
# The groups of a message are put into its words, in which { and } are doubled.
_FIXES: tuple[tuple[str, str], ...] = (
    (r"(got|unexpected) '='", "write == to compare; a value is kept with set: {{ctx.name: …}} on the step"),
    (r"expected token 'name', got '\|'", "write or"),
    (r"expected token 'name'|expected name or number", "a name is missing after . or |"),
    (r"Missing end of comment", "close it with #}}"),
    (r"unexpected end of template, expected 'end of statement block'", "close the tag with %}}"),
    (r"unexpected end of template", "close it with }}}}"),
    (r"Expected an expression, got", "write an expression between {{{{ and }}}}"),
    (r"unexpected 'end of print statement'", "something is missing before }}}}"),
    (r"unexpected 'end of statement block'", "something is missing before %}}"),
    (r"unexpected '[)\]}]', expected '(.)'", "write {0} before it"),
    (r"unexpected '([)\]}])'", "remove {0}, or open it before"),
    (r"expected token '([)\]},])', got", "write {0} before it"),
    (r"expected token 'end of print statement', got ':'", "write a mapping as {{{{ {{'key': value}} }}}}"),
    (r"expected token 'end of print statement', got '(.+)'", "write an operator before {0}; ~ joins texts"),
    (r"expected token 'end of statement block', got '(.+)'", "write an operator before {0}, or remove it"),
    (r"innermost block that needs to be closed is '(\w+)'", "write {{% end{0} %}} at its end"),
    (r"is not part of the language", "the tags are if, for and set"),
    (r"recursive loops", "write one for within another, or a loop of the step"),
    (r"is given twice", "keep one of the two"),
    (r"too long|too deep", "make parts of it in earlier steps, or with {{% set %}}"),
    (r"[Cc]an.t assign to", "give it a name of its own, of letters, digits and _"),
)


def fix(text: str, message: str, nearest: Nearest) -> str:
    """`nearest` finds what a mistyped word most likely meant."""
    if (found := re.match(r"there is no (filter|test) `(.+)`", message)) is not None:
        return _unknown(found[1], found[2], nearest)
    if (found := re.search(r"unknown tag '(end\w+)'.*needs to be closed is '(\w+)'", message)) is not None:
        return f"write {{% end{found[2]} %}} instead, or before it"
    if (found := re.search(r"unknown tag '(\w+)'", message)) is not None:
        return _unknown_tag(found[1], nearest)
    if (found := re.match(r"unexpected char ['\"](.)['\"] at", message)) is not None:
        return _SIGNS.get(found[1], f"remove {found[1]}, or write it within quotes")
    if text.count("{{") > text.count("}}"):
        return "close every {{ with }}"
    for pattern, words in _PYTHON:
        if any(re.search(pattern, part) for part in re.findall(r"\{\{(.*?)\}\}", text, re.DOTALL)):
            return words
    for pattern, words in _FIXES:
        if (found := re.search(pattern, message)) is not None:
            return words.format(*found.groups())
    return PLAIN


def _unknown(what: str, name: str, nearest: Nearest) -> str:
    known = FILTERS if what == "filter" else TESTS
    if near := nearest(name, sorted(known)) or (CALLED.get(name, "") if what == "filter" else ""):
        return f"did you mean {near}?"
    if what == "filter" and name in METHODS[str]:
        return f"write {{{{ value.{name}(…) }}}}"
    return f"{LISTED}: {what}s"


def _unknown_tag(name: str, nearest: Nearest) -> str:
    if near := "" if name in TAGS else nearest(name, TAGS):
        return f"did you mean {near}?"
    if name in TAGS:
        opens = name.removeprefix("end") if name.startswith("end") else "if"
        return f"remove it, or write {{% {opens} … %}} before it"
    return "the tags are if, for and set"
