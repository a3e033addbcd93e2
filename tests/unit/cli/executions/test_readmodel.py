"""What people are told of a PostgreSQL that does not answer."""

import asyncpg

from services.cli.executions.readmodel import words


def test_an_error_with_details_is_one_line() -> None:
    error = asyncpg.CannotConnectNowError("the database system is starting up\nDETAIL:  Recovery has not finished.")
    assert words(error) == "the database system is starting up; DETAIL:  Recovery has not finished."


def test_an_error_without_words_is_the_time_that_ran_out() -> None:
    assert words(TimeoutError()) == "timed out"
