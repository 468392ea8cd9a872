"""Evidence in memory, diagnosed."""

from __future__ import annotations

import io

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import take
from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.diagnosis import findings


def diagnosed(**files: str | bytes) -> list[Finding]:
    """All findings on files given by name; two underscores in a name stand for a dot."""
    bundle = bundled(**files)
    return findings(bundle)


def bundled(**files: str | bytes) -> Bundle:
    """The files taken in, not yet judged."""
    bundle = Bundle()
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        take(bundle, name.replace("__", "."), io.BytesIO(data))
    return bundle
