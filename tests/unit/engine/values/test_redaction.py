"""Secrets in what is recorded: every spelling goes, and nothing else does."""

import base64
import json
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from shared.engine.values import redaction
from shared.engine.values.redaction import HIDDEN, Secrets
from shared.events.outcome import failed, ok

TOKEN = "tok-7f1c-never"
ODD = 'p+ä/ "q\\w=\n~é#😀%'
VALUES = (TOKEN, ODD, "aaaaaa", "x/y+z=", "\\\\\\\\\\\\", '""""""', "      a", "日本語の秘密です", "-" * 200 + "k",
          "Zm9v+/Zm9v=")


def _spellings(secret: str) -> dict[str, str]:
    data = secret.encode()
    wrapped = base64.encodebytes(data).decode()
    found = {
        "plain": secret, "json": json.dumps(secret), "json with letters": json.dumps(secret, ensure_ascii=False),
        "json twice": json.dumps(json.dumps({"a": secret})),
        "json with slashes": json.dumps(secret).replace("/", "\\/"),
        "upper unicode": "".join(f"\\u{ord(c):04X}" if ord(c) > 0x7e and ord(c) < 0x10000 else json.dumps(c)[1:-1]
                                 for c in secret),
        "repr": repr(secret), "url": quote(secret, safe=""), "url path": quote(secret), "form": quote_plus(secret),
        "small url": quote(secret, safe="").lower() if secret.islower() else quote(secret, safe=""),
        "component": quote(secret, safe="!'()*~"), "base64": base64.b64encode(data).decode(),
        "url base64": base64.urlsafe_b64encode(data).decode(),
        "base64 in a url": quote(base64.b64encode(data).decode()),
        "base64 in json": json.dumps({"k": base64.b64encode(data).decode()}),
    }
    for before in ("u", "us", "use", "user:"):
        for after in ("", "\n", "xy"):
            found[f"base64 of {before}…{after!r}"] = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    return found | ({"base64 in lines": wrapped} if len(wrapped) > 77 else {})


@pytest.mark.parametrize("secret", VALUES)
def test_every_spelling_is_hidden_wherever_it_stands(secret: str) -> None:
    secrets, data = Secrets({"token": secret}), secret.encode()
    cores = [base64.b64encode(b"\0" * n + data).decode()[2 * n : (n + len(data)) * 8 // 6] for n in range(3)]
    for name, text in _spellings(secret).items():
        for before in ("", "see ", "x" * (redaction.LONG + 1)):
            shown = secrets.value({"deep": [f"{before}[{text}] and"]})["deep"][0]
            assert HIDDEN in shown, (name, text, shown)
            assert shown.startswith(f"{before}["), name
            assert shown.endswith("] and"), name
            assert secret not in shown, name
            assert not any(core in shown for core in cores), name


def test_a_text_without_the_secret_is_the_same_object() -> None:
    secrets, outcome = Secrets({"token": TOKEN}), ok({"a": ["tok-7f1c-nevir", 1, None, True, 0.5]})
    assert secrets.outcome(outcome) is outcome


def test_result_error_output_headers_and_keys_are_all_looked_through() -> None:
    secrets = Secrets({"token": TOKEN})
    outcome = failed(
        "http", f"no {TOKEN}", details={"body": {TOKEN: [TOKEN]}}, result={"headers": {"x": TOKEN}}, shape="http",
        meta={"stdout": [TOKEN]}, http={"headers": {"location": f"/?k={TOKEN}"}}, py={"traceback": TOKEN},
        pg={"detail": TOKEN}, fields={"a": TOKEN})
    shown = secrets.outcome(outcome)
    assert TOKEN not in repr(shown)
    assert shown.error == {"kind": "http", "message": "no ***", "retryable": False, "body": {"***": ["***"]}}
    assert (shown.http, shown.result) == ({"headers": {"location": "/?k=***"}}, {"headers": {"x": "***"}})


def test_words_of_ours_stay_whatever_a_secret_is() -> None:
    secrets = Secrets({"a": "timeout", "b": "status_code", "c": "message", "d": "headers"})
    shown = secrets.outcome(failed("timeout", "a timeout", http={"status": 1}, result={"status_code": 1, "headers": {}},
                                   shape="http"))
    assert shown.error == {"kind": "timeout", "message": "a ***", "retryable": False}
    assert shown.result == {"status_code": 1, "headers": {}}


@pytest.mark.parametrize("credential", [
    {"token": "short"}, {"user": "the_user", "password": "the_user"}, {"database": "shop_db", "password": "shop_db"},
    {"dsn": "postgresql://the_user:short@localhost/shop_db"}, {"host": "localhost", "port": 543210, "type": "postgres"},
    {"ok": True, "none": None, "n": 12345}, {},
])
def test_what_is_short_or_the_name_of_a_user_or_database_is_no_secret(credential: dict[str, Any]) -> None:
    text = "short the_user shop_db localhost postgres 543210 12345 True"
    assert Secrets(credential).value(text) == text


def test_a_name_that_holds_a_secret_is_kept_whole() -> None:
    secrets = Secrets({"user": "postgres_admin", "password": "postgres", "database": "my_postgres"})
    assert secrets.value("postgres_admin at my_postgres with postgres") == "postgres_admin at my_postgres with ***"


@pytest.mark.parametrize(("credential", "secret"), [
    ({"dsn": "postgresql://me:p%40ss-word@h/db"}, "p@ss-word"),
    ({"dsn": "postgresql://me:p%40ss-word@h/db"}, "p%40ss-word"),
    ({"url": "nats://me:pass-word@h:4222"}, "pass-word"), ({"dsn": "host=h user=me password=pass-word"}, "pass-word"),
    ({"dsn": r"host=h password='pa\'ss word'"}, "pa'ss word"),
    ({"dsn": "postgresql://h/db?password=pass-word"}, "pass-word"),
    ({"headers": {"Authorization": "Bearer abcdefgh"}}, "abcdefgh"),
    ({"headers": {"Authorization": "Basic " + base64.b64encode(b"me:pass-word").decode()}}, "pass-word"),
    ({"service_account_json": json.dumps({"type": "service_account", "private_key": "-----BEGIN\nMIIEvQIBADANBgkq\n"})},
     "MIIEvQIBADANBgkq"),
    ({"pg": {"deep": [{"password": "pass-word"}]}}, "pass-word"), ({"password": 12345678}, "12345678"),
    ({"token": "mounted-secret\n"}, "mounted-secret"),
])
def test_secrets_within_the_fields_of_a_credential_are_found(credential: dict[str, Any], secret: str) -> None:
    assert Secrets(credential).value(f"<{secret}>") == "<***>"


def test_a_number_is_hidden_when_it_is_the_secret() -> None:
    assert Secrets({"pin": "12345678"}).value([12345678, 123456789, 1.5]) == ["***", 123456789, 1.5]


@pytest.mark.parametrize(("text", "shown"), [
    (f"…{TOKEN[4:]} failed", "…*** failed"), (f"failed with {TOKEN[:9]}…", "failed with ***…"),
    (f"failed with {TOKEN[:9]}", "failed with ***"), (f"{TOKEN[:5]}", TOKEN[:5]),
    (f"{TOKEN[:8]} is no end", f"{TOKEN[:8]} is no end"),
])
def test_a_secret_that_was_cut_in_a_message_goes_too(text: str, shown: str) -> None:
    error = Secrets({"token": TOKEN}).outcome(failed("x", text)).error
    assert error is not None
    assert error["message"] == shown


def test_of_two_secrets_the_one_that_holds_the_other_goes_whole() -> None:
    assert Secrets({"a": "secret", "b": "secret-and-more"}).value("secret-and-more, secret") == "***, ***"


def test_what_was_learnt_before_stays_known() -> None:
    secrets = Secrets()
    assert not secrets
    secrets.learn({"token": "first-one"})
    secrets.learn({"token": "second-one"})
    assert secrets.value("first-one second-one") == "*** ***"


@pytest.mark.parametrize("text", ["tok" * 3_000_000, "\\" * 3_000_000, "tok-7f1c-neve" * 500_000, TOKEN * 300_000])
def test_a_hostile_text_takes_bounded_time(text: str) -> None:
    secrets = Secrets({"token": TOKEN, "b": "\\\\\\\\\\\\x", "c": '"""\\\\"""'})
    began = time.process_time()
    assert TOKEN not in secrets.value(text)
    assert time.process_time() - began < 10


def test_what_a_program_printed_when_it_was_ended_may_stop_within_a_secret() -> None:
    secret = "canary-0123456789-abcdef"
    half = f"token: {secret[:14]}"
    stopped = failed("cancelled", "stopped", result={"stdout": half, "stderr": half + "\n"}, meta={"stdout": half})
    clean = Secrets({"token": secret}).outcome(stopped)
    assert clean.result == {"stdout": "token: ***", "stderr": "token: ***\n"}
    assert clean.meta["stdout"] == "token: ***"


@pytest.mark.parametrize("left_out", ["\n… 70 bytes left out …\n", "\n… 70 more characters"])
def test_what_is_left_out_of_what_a_program_printed_may_begin_and_end_within_a_secret(left_out: str) -> None:
    secret = "canary-0123456789-abcdef"
    clean = Secrets({"token": secret}).outcome(ok(
        {"exit_code": 0, "stdout": f"a {secret[:-1]}{left_out}{secret[8:]} b"}, meta={"stdout": secret[:9] + left_out}))
    assert clean.result["stdout"] == f"a ***{left_out}*** b"
    assert clean.meta["stdout"] == f"***{left_out}"
