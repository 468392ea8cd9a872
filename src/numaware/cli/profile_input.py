"""The option that says what a cluster wants of its scheduler: a profile that ships with numaware, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from numaware.cli.file_input import read_file
from numaware.cli.options import optional
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule import profile as profiles
from numaware.schedule.profile import DEFAULT_PROFILE, SHIPPED, Profile

_MOST_BYTES = 1 << 20

ProfileName = Annotated[
    str | None,
    optional(f"What numaware places pods for: {', '.join(SHIPPED)}, or a YAML file; see docs/placement.md."),
]


def profile_file(name: str | None) -> Path | None:
    """The file that a profile comes from; None for one that ships."""
    return None if name is None or name in SHIPPED else Path(name)


def load_profile(name: str | None) -> Profile:
    """The profile of a name or a file; the default one where none is asked for."""
    if name is None:
        return DEFAULT_PROFILE
    if name in SHIPPED:
        return profiles.shipped(name)
    if "/" not in name and not Path(name).exists():
        problem = f"{printable(name, 80)!r} is neither a profile nor a file"
        raise InputError("--profile", problem, hint=f"known: {', '.join(SHIPPED)}")
    return profiles.read(read_file(Path(name), _MOST_BYTES), name)
