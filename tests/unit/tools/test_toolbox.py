"""The tools of a worker, and the kinds it refuses."""

import pytest

from shared.runtime.service.settings import BadSettings, read_settings
from shared.tools.base.contract import ToolOptions
from shared.tools.toolbox import Tools
from tests.support.calls import call


async def test_a_kind_that_is_switched_off_refuses_every_call() -> None:
    tools = Tools(ToolOptions(), read_settings({"NOETL_TOOLS_DISABLED": "shell,python"}).tools_disabled)
    for kind in ("shell", "python"):
        error = (await tools.get(kind).run(call({"cmd": "true", "code": "result = 1"}))).error
        assert (error["kind"], error["retryable"]) == ("disabled", False)
        assert kind in error["message"]
    assert (await tools.get("noop").run(call({"args": 1}))).status == "ok"
    await tools.close()


def test_all_kinds_are_there_unless_switched_off() -> None:
    assert read_settings({}).tools_disabled == ()


def test_a_kind_that_does_not_exist_cannot_be_switched_off() -> None:
    with pytest.raises(BadSettings, match="shel'"):
        read_settings({"NOETL_TOOLS_DISABLED": "shel"})
