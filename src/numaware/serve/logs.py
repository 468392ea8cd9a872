"""Logs of daemons: one line each, JSON for programs or text for people, on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

Format = Literal["json", "text"]


def set_up(form: Format) -> None:
    """Call once, before anything is logged."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shown = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, shown],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
