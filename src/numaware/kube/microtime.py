"""Moments as the API server writes them where it counts microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(moment: datetime) -> str:
    """`2026-01-31T23:59:59.000001Z`, whatever zone it is told in."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
