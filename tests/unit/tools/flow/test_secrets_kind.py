"""`kind: secrets` as a worker calls it: the credential has been looked up, and only its name comes back."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.tools.base.contract import ToolOptions
from shared.tools.flow.secrets import SecretsTool
from tests.support.calls import call


@pytest.mark.parametrize(("config", "handle"), [
    ({"secret_name": "api"}, {"secret": "api"}), ({"key": "api", "provider": "google"}, {"secret": "api"}),
    ({"secret": "api", "field": "token"}, {"secret": "api", "field": "token"}),
])
async def test_the_result_is_a_handle_without_the_value(config: dict[str, Any], handle: dict[str, str]) -> None:
    (key,) = config.keys() & {"secret_name", "secret", "key"}
    given = replace(call(config), credentials={key: {"token": "never-told"}})
    outcome = await SecretsTool(ToolOptions()).run(given)
    assert (outcome.status, outcome.shape, outcome.result) == ("ok", "secret", handle)
    assert "never-told" not in repr(outcome)


@pytest.mark.parametrize(("config", "kind"), [
    ({"secret_name": "api", "field": "nosuch"}, "auth"), ({"secret_name": {"token": "x"}}, "config"), ({}, "config"),
    ({"secret_name": "a", "key": "b"}, "config"),
])
async def test_a_handle_that_could_not_be_used_is_an_error(config: dict[str, Any], kind: str) -> None:
    given = replace(call(config), credentials={"secret_name": {"token": "x"}})
    error = (await SecretsTool(ToolOptions()).run(given)).error
    assert error is not None
    assert error["kind"] == kind
