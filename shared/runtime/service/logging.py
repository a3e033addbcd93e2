"""Logs: structlog, one line per event; JSON, or colours and columns on a terminal."""

import logging
import sys
from typing import Any, TextIO

import structlog

from shared import visible

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """How this process logs. To stderr, whatever that is when there is something to say, so that stdout stays for
    results."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_rendering(_out(stream)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: structlog.WriteLogger(_out(stream)),
        cache_logger_on_first_use=False,
    )


def _out(stream: TextIO | None) -> TextIO:
    out = stream or sys.stderr
    return getattr(out, "under", out)  # noetlctl's has no sequences but its own


def _rendering(out: TextIO) -> list[Any]:
    if out.isatty():
        return [structlog.processors.format_exc_info, visible.fields,
                structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
