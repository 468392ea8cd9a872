"""Short English texts: under marked lines, and the fixed words of the renderers."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "a-pod": "a pod",
    "trouble": "something was found",
    "no-trouble": "no topology problem found",
    "error": "error",
    "warning": "warning",
    "info": "fine",
    "certain": "certain",
    "likely": "likely",
    "possible": "possible",
    "why": "why",
    "colon": ": ",
    "help": "help",
    "wants": "{resource} wants {nodes:sets}",
    "wants-nothing": "{resource} fits on no set of NUMA nodes",
    "makes-do": "{resource} would make do with {nodes:sets}, and prefers fewer",
    "no-wish": "no hint: any NUMA node will do",
    "merged": "merged: {hint}",
    "refused": "refused here",
    "stopped": "the kubelet ends here",
    "again": "made again",
    "got-cpus": "given to the container",
    "not-whole": "not a whole number of CPUs: {whole} would be",
    "diagnosed": "{errors:errors} and {warnings:warnings} in {files:files}",
    "unknown-files": "not recognised: {count:files}",
    "facts": "facts",
    "files": "files",
    "more-lines": "and {count} more lines",
}
