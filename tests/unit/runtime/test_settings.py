"""Settings come from NOETL_* alone, are typed, and a bad one is named."""

import pytest

from shared.runtime.settings import BadSettings, read_settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = read_settings({})
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert settings.pools == ("default",)
    assert settings.instance


def test_values_are_converted_and_lists_split_at_commas() -> None:
    settings = read_settings({"NOETL_SLOTS": "4", "NOETL_POOLS": "a,b", "NOETL_DRAIN_S": "1.5"})
    assert (settings.slots, settings.pools, settings.drain_s) == (4, ("a", "b"), 1.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("slots", "many"), ("slots", "0"), ("health_port", "65536"), ("drain_s", "0"), ("log_level", "loud")],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        read_settings({"NOETL_" + name.upper(): value})
