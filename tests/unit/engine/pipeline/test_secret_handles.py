"""Handles of secrets in templates: what they are read as, and by whom."""

from typing import Any

import pytest

from shared.dsl.templates.evaluate import evaluate
from shared.dsl.templates.result_view import View, view
from shared.engine.pipeline.secret_handles import handles, opened
from shared.errors import TemplateError
from shared.events.outcome import Result

HANDLE = {"secret": "api"}


def test_only_the_result_of_a_secrets_task_is_a_handle() -> None:
    secret = view(Result(HANDLE, "secret"))
    names = {"s": secret, "v": view(Result(HANDLE)), "m": HANDLE, "unused": secret}
    assert handles({"s", "v", "m", "nosuch"}, names) == {"s": HANDLE}
    assert evaluate("{{ s }}", names) == HANDLE
    assert evaluate("{{ s.secret_value is defined }}", names) is False


@pytest.mark.parametrize(("credential", "text", "value"), [
    ({"type": "bearer", "token": "abc"}, "{{ s }}", "abc"), ({"token": "abc"}, "Bearer {{ s }}", "Bearer abc"),
    ({"token": "abc"}, "{{ 'Bearer ' ~ s }}", "Bearer abc"), ({"token": "abc"}, "{{ s | b64encode }}", "YWJj"),
    ({"token": "abc"}, "{{ s.token }}{{ s.secret_value }}{{ s.value }}{{ s.data }}", "abcabcabcabc"),
    ({"user": "u", "password": "p"}, "{{ s.user }}{{ s.password }}{{ s }}", "upp"),
    ({"a": "1", "b": "2"}, "{{ s.a }}{{ s.b }}", "12"), ({"a": "1", "b": "2"}, "{{ s }}", {"a": "1", "b": "2"}),
])
def test_the_only_secret_field_is_the_value_and_every_field_has_its_name(
    credential: dict[str, str], text: str, value: Any
) -> None:
    assert evaluate(text, {"s": opened(HANDLE, credential)}) == value


def test_a_field_that_was_chosen_is_the_value() -> None:
    chosen = {"secret": "api", "field": "b"}
    assert evaluate("{{ s }}{{ s.a }}", {"s": opened(chosen, {"a": "1", "b": "2"})}) == "21"
    with pytest.raises(TemplateError, match="the secret 'api' has no field 'b'"):
        opened(chosen, {"a": "1"})


def test_a_rehearsal_marks_what_it_does_not_have() -> None:
    shown = opened(HANDLE, None)
    assert type(shown) is View
    assert evaluate("{{ s }} {{ s.token }}", {"s": shown}) == "<keychain.api.*> <keychain.api.token>"
