"""What the rules on a kubelet configuration look at, and how they make findings: at the line of the field to blame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.finding import Confidence, Finding, Severity, Subject, finding
from numaware.twin.config import KubeletConfig
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet_config import KubeletConfigFile
from numaware.twin.rules import rules_for


class ConfigCheck(NamedTuple):
    """One configuration, the text it came from, and the machine it is for, where that is known."""

    file: KubeletConfigFile
    source: SourceText
    subject: Subject
    hardware: Hardware | None = None

    @property
    def config(self) -> KubeletConfig:
        return self.file.config

    @property
    def minor(self) -> int:
        return rules_for(self.config.version).minor

    def finding(
        self,
        code: str,
        facts: Mapping[str, Any],
        *keys: str,
        variant: str = "",
        severity: Severity | None = None,
        confidence: Confidence = "certain",
    ) -> Finding:
        """A finding at the line of the field that the keys lead to."""
        return finding(
            code,
            self.subject,
            facts,
            [self.source.field(*keys)] if keys else [self.source.whole()],
            confidence=confidence,
            severity=severity,
            variant=variant,
        )
