"""Kubelet configurations against a real kubelet: what is recommended starts, and what lint calls an error does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.kubelet_beside_twin import VERSION, SideBySide, container, pod
from e2e.real_kubelet import RealKubelet
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.recommend.configuration import Purpose, recommend
from numaware.diagnose.render.kubelet_yaml import to_builtins
from numaware.diagnose.rules.lint import World, lint
from numaware.machine import synthetic
from numaware.twin.inventory import hardware_of
from support.choices import PURPOSES

pytestmark = pytest.mark.e2e
MACHINE = "2s x 1n x 8c x 2t mem=32Gi"
STATIC: dict[str, Any] = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,16"}


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_recommended_configuration_starts_and_admits_what_it_is_for(
    tmp_path: Path, purpose: Purpose
) -> None:
    machine = synthetic.read(MACHINE)
    found = recommend(machine, purpose, VERSION)
    config = {key: value for key, value in found.document.items() if key not in ("apiVersion", "kind")}
    with RealKubelet(tmp_path, machine, config) as kubelet:
        side = SideBySide(kubelet)
        asked = to_builtins(found, "m")["proof"]["requests"]
        assert side.add(pod("typical", container("main", asked))).admitted


@pytest.mark.parametrize(
    "config",
    [
        {"cpuManagerPolicy": "static"},
        {"memoryManagerPolicy": "Static"},
        {"memoryManagerPolicy": "Static", "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]},
        {"memoryManagerPolicy": "Static", "reservedMemory": [{"numaNode": 7, "limits": {"memory": "100Mi"}}]},
        {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus": "true"}},
        {**STATIC, "cpuManagerPolicyOptions": {"align-by-socket": "true"}},
        {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
        {
            **STATIC,
            "cpuManagerPolicyOptions": {
                "prefer-align-cpus-by-uncorecache": "true",
                "distribute-cpus-across-numa": "true",
            },
        },
        {"cpuManagerPolicy": "Static", "reservedSystemCPUs": "0"},
        {"topologyManagerPolicy": "strict"},
    ],
    ids=lambda config: ",".join(map(str, config)),
)
def test_a_configuration_with_an_error_stops_the_kubelet_for_the_reason_given(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    machine = synthetic.read(MACHINE)
    found = lint(msgspec.json.encode(config), "f", World(version=VERSION, hardware=hardware_of(machine)))
    (error,) = (one for one in found.findings if one.severity == "error")
    kubelet = RealKubelet(tmp_path, machine, config)
    with pytest.raises(AssertionError, match="kubelet ended"), kubelet:
        pass
    meaning = start_failure((tmp_path / "kubelet.log").read_text(encoding="utf-8", errors="replace")[-8000:])
    assert meaning is not None
    assert meaning.code == error.code
