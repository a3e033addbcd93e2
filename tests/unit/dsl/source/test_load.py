"""Safe YAML with places: what is read, what is refused, and where."""

from typing import Any

import pytest

from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.source import nodes as source
from shared.dsl.source.load import load
from shared.dsl.source.nodes import Position


def data(text: str | bytes) -> Any:
    document, diagnostics = load(text)
    assert diagnostics == []
    assert document is not None
    return document.data


def mistakes(text: str | bytes) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in load(text)[1]]


def only(text: str | bytes) -> Diagnostic:
    (found,) = load(text)[1]
    return found


def test_scalars_become_json_values() -> None:
    text = "a: 1\nb: -2.5\nc: true\nd: ~\ne: text\nf: 1e3\ng: 0x1f\nh: 1_000\ni: 'yes'\nj: on\nk:\nl: !!str 5"
    assert data(text) == {"a": 1, "b": -2.5, "c": True, "d": None, "e": "text", "f": 1000.0, "g": 31,
                          "h": 1000, "i": "yes", "j": True, "k": None, "l": "5"}


@pytest.mark.parametrize("text", ["2024-01-31", "12:30:45", "01234", "1.2.3", "+", ".", "0x", "--1"])
def test_what_only_looks_like_a_number_or_date_stays_text(text: str) -> None:
    assert data(f"a: {text}")["a"] == text


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9223372036854775808", "9" * 5000])
def test_numbers_that_cannot_be_held_are_told(text: str) -> None:
    assert mistakes(f"a: {text}") == [("DSL108", 1, 4)]


def test_byte_order_mark_and_windows_line_ends_are_tolerated() -> None:
    assert data(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - 2\r\n") == {"a": 1, "b": [2]}
    assert data("\ufeffa: 1") == {"a": 1}


def test_tab_indentation_is_told_with_its_fix() -> None:
    found = only("a:\n\tb: 1")
    assert (found.code, found.line) == ("DSL102", 2)
    assert "spaces" in found.fix


def test_syntax_error_near_a_template_suggests_quotes() -> None:
    found = load("a: {{ x }}/y\n")[1]
    assert found[-1].code == "DSL102"
    assert all("quotes" in each.fix for each in found)


def test_unquoted_template_is_one_mistake() -> None:
    assert mistakes("a: {{ x }}\nb: 1") == [("DSL105", 1, 5)]


@pytest.mark.parametrize("text", [b"a: \xff", b"\xff\xfea\x00"])
def test_source_that_is_not_utf8_is_told(text: bytes) -> None:
    assert only(text).code == "DSL101"


def test_place_of_a_bad_byte_counts_lines_and_characters() -> None:
    assert mistakes("a: 1\nb: é".encode() + b"\xff") == [("DSL101", 2, 5)]


@pytest.mark.parametrize("text", ["a: \x07", 'a: "\\0"', "a: \ud800"])
def test_characters_that_cannot_be_stored_are_told(text: str) -> None:
    assert mistakes(text) == [("DSL101", 1, 4)]


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "~", "- a", "text"])
def test_a_document_must_be_a_mapping(text: str) -> None:
    assert only(text).code == "DSL106"


def test_several_documents_are_rejected() -> None:
    assert mistakes("---\na: 1\n---\nb: 1\n") == [("DSL103", 3, 1)]


def test_duplicate_and_non_text_keys_are_all_told() -> None:
    text = "a: 1\na: 2\n3: x\ntrue: y\n~: z\n[p]: q\nb: {c: 1, c: 2}"
    assert mistakes(text) == [("DSL104", 2, 1), ("DSL105", 3, 1), ("DSL105", 4, 1), ("DSL105", 5, 1),
                              ("DSL105", 6, 1), ("DSL104", 7, 11)]


@pytest.mark.parametrize("text", ["!!python/name:os.system x", "!custom {}", "!!set {a}", "!!int x", "!!binary aa"])
def test_tags_without_meaning_are_told(text: str) -> None:
    assert mistakes(f"a: {text}")[0] == ("DSL107", 1, 4)


def test_aliases_and_merges_are_expanded() -> None:
    text = "base: &base {x: 1, y: 2}\nlist: [*base, *base]\nmine:\n  <<: *base\n  y: 3\nboth:\n  <<: [*base, {z: 4}]"
    assert data(text) == {"base": {"x": 1, "y": 2}, "list": [{"x": 1, "y": 2}] * 2, "mine": {"x": 1, "y": 3},
                          "both": {"x": 1, "y": 2, "z": 4}}


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: *nowhere", "a: &x {b: *x}"])
def test_alias_without_value_is_told(text: str) -> None:
    assert only(text).code == "DSL107"


def test_merge_of_something_else_is_told() -> None:
    assert mistakes("a:\n  <<: 5") == [("DSL107", 2, 7)]


def test_every_key_and_value_has_its_place() -> None:
    document, _ = load("a:\n  b:\n    - c\n    - d: e\n")
    assert document is not None
    assert document.key(("a", "b")) == Position(2, 3)
    assert document.node(("a", "b", 0)).position == Position(3, 7)
    assert document.key(("a", "b", 1, "d")) == Position(4, 7)
    assert document.node(("a", "b", 1, "d")).position == Position(4, 10)


def test_place_of_a_line_inside_a_block() -> None:
    document, _ = load("a: |\n  one\n    two\nb: >\n  x\n  y\nc: 'one\n  two'\n")
    assert document is not None
    assert document.text_line(("a",), 1) == Position(3, 5)
    assert document.text_line(("b",), 1) == Position(5, 3)  # folded: lines are lost, the first is named
    assert document.text_line(("c",), 1) == Position(7, 4)


# -- limits


def test_source_size_limit() -> None:
    fits = "a: 1\n#" + "x" * (source.MAX_SOURCE_BYTES - 6)
    assert data(fits) == {"a": 1}
    assert mistakes(fits + "x") == [("DSL109", 1, 1)]
    assert mistakes((fits + "x").encode()) == [("DSL109", 1, 1)]


def test_depth_limit() -> None:
    levels = source.MAX_DEPTH - 2
    assert data("a: " + "[" * levels + "1" + "]" * levels)
    assert only("a: " + "[" * (levels + 1) + "1" + "]" * (levels + 1)).code == "DSL109"


def test_depth_limit_counts_expanded_aliases() -> None:
    half = source.MAX_DEPTH // 2 + 1
    nested = "[" * half + "1" + "]" * half
    assert only(f"a: &x {nested}\nb: " + "[" * half + "*x" + "]" * half).code == "DSL109"


def test_hundred_thousand_open_brackets_stop_at_the_depth_limit() -> None:
    assert only("[" * 100_000).code == "DSL109"


def test_node_limit() -> None:
    full = "[" + "1," * 999 + "],"  # 1,000 values
    text = "a: [" + full * (source.MAX_NODES // 1000 - 1) + "1," * 997  # the mapping, its key and the list
    assert len(data(text + "]")["a"]) == source.MAX_NODES // 1000 - 1 + 997
    assert only(text + "1]").code == "DSL109"


def test_limit_of_one_collection() -> None:
    items = "1," * source.MAX_ITEMS
    keys = "".join(f"k{n}: 1\n" for n in range(source.MAX_ITEMS))
    assert len(data(f"a: [{items}]")["a"]) == len(data(keys)) == source.MAX_ITEMS
    assert mistakes(f"a: [{items}1]") == [("DSL109", 1, 4)]
    assert mistakes(f"{keys}more: 1") == [("DSL109", 1, 1)]


def test_node_limit_counts_expanded_aliases() -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert only("\n".join(lines)).code == "DSL109"


def test_alias_limit() -> None:
    text = "a: &a 1\nb: [" + "*a," * source.MAX_ALIASES
    assert len(data(text + "]")["b"]) == source.MAX_ALIASES
    assert only(text + "*a]").code == "DSL109"


def test_scalar_length_limit() -> None:
    text = "x" * source.MAX_SCALAR_CHARS
    assert data("a: " + text)["a"] == text
    assert mistakes("a: " + text + "x") == [("DSL109", 1, 4)]


def test_text_limit_counts_expanded_aliases() -> None:
    times = source.MAX_TEXT_CHARS // source.MAX_SCALAR_CHARS
    text = "a: &a " + "x" * (source.MAX_SCALAR_CHARS - 1) + "\nb: ["
    assert len(data(text + "*a," * (times - 1) + "]")["b"]) == times - 1
    assert only(text + "*a," * times + "]").code == "DSL109"


def test_mistakes_of_the_source_have_a_limit() -> None:
    found = mistakes("a: 1\n" * (source.MAX_SOURCE_ERRORS + 100))
    assert len(found) == source.MAX_SOURCE_ERRORS + 1
    assert [code for code, _, _ in found].count("DSL802") == 1


def test_tagged_scalars_take_their_type() -> None:
    assert data("a: !!int '5'\nb: !!float 5\nc: !!null ''\nd: !!bool 'yes'\ne: ! 5") == {
        "a": 5, "b": 5.0, "c": None, "d": True, "e": "5"}
