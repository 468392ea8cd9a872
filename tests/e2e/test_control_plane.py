"""The control plane that all other tests stand on: it comes up, comes back, keeps strangers out and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.api import ApiError
from e2e.control_plane import ROOT, ControlPlane
from e2e.program import eventually

pytestmark = pytest.mark.e2e

NODES = "/api/v1/nodes"
MAPS = "/api/v1/namespaces/default/configmaps"


def note(plane: ControlPlane, name: str) -> None:
    plane.api().create(MAPS, {"metadata": {"name": name}, "data": {"kept": name}})


def kept(plane: ControlPlane, name: str) -> str:
    return str(plane.api().get(f"{MAPS}/{name}")["data"]["kept"])


def test_the_api_server_is_the_version_that_was_built(plane: ControlPlane) -> None:
    go_mod = (ROOT / "scripts/kube-assets/go.mod").read_text(encoding="utf-8")
    if "KUBEBUILDER_ASSETS" not in os.environ:
        assert f"k8s.io/kubernetes {plane.api().get('/version')['gitVersion']}" in go_mod
    assert plane.api().list_all(NODES) == []


def test_a_stranger_may_neither_look_nor_write(plane: ControlPlane) -> None:
    stranger = plane.api("stranger")
    assert stranger.status_of("GET", NODES) == 403
    assert stranger.status_of("GET", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies") == 403
    assert stranger.status_of("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}}) == 403


def test_our_own_programs_may_do_what_is_shipped_and_no_more(plane: ControlPlane) -> None:
    for user in ("numaware-scheduler", "numaware-extender", "numaware-viewer"):
        assert plane.api(user).status_of("GET", NODES) == 200
        assert plane.api(user).status_of("DELETE", "/api/v1/namespaces/default/pods/p") == 403
        assert plane.api(user).status_of("GET", "/api/v1/namespaces/default/secrets") == 403
    lease = "/apis/coordination.k8s.io/v1/namespaces/numaware/leases"
    body = {"metadata": {"name": "numaware-scheduler"}, "spec": {"holderIdentity": "me"}}
    assert plane.api("numaware-extender").status_of("POST", lease, body) == 403
    assert plane.api("numaware-scheduler").status_of("POST", lease, body) == 200
    assert plane.api("numaware-scheduler").status_of("GET", f"{lease}/another") == 403


def test_what_was_written_survives_every_kind_of_restart(plane: ControlPlane) -> None:
    note(plane, "before")
    plane.restart("apiserver")
    assert kept(plane, "before") == "before"
    plane.kill("apiserver")
    with pytest.raises(OSError, match="refused"):
        plane.api().get(NODES)
    plane.start("apiserver")
    note(plane, "between")
    plane.kill("etcd")
    plane.start("etcd")
    eventually(lambda: kept(plane, "between") == "between", "the API server finds etcd again")


def test_a_frozen_etcd_goes_on_where_it_stood(plane: ControlPlane) -> None:
    plane.pause("etcd")
    try:
        # It ends at the server's limit for this request, or of the socket: nothing is written in either case.
        with pytest.raises((ApiError, OSError)):
            plane.api().request("POST", MAPS, {"metadata": {"name": "frozen"}}, timeout="1s")
    finally:
        plane.resume("etcd")
    eventually(lambda: plane.api().get("/readyz"), "the API server is ready again")
    note(plane, "after")
    assert kept(plane, "after") == "after"


def test_topologies_of_nodes_are_checked_when_they_are_written(plane: ControlPlane) -> None:
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    good = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n0"},
        "attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}],
        "zones": [
            {
                "name": "node-0",
                "type": "Node",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": [{"name": "cpu", "capacity": "8", "allocatable": 7, "available": "7"}],
            }
        ],
    }
    assert plane.api().create(path, good)["zones"] == good["zones"]
    assert plane.api().status_of("POST", path, {**good, "metadata": {"name": "n1"}, "zones": None}) == 422


def test_nothing_outlives_tests_that_were_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from e2e.control_plane import ControlPlane
with ControlPlane(Path({str(tmp_path / "plane")!r}), scheduler={{}}) as plane:
    print(*(program.process.pid for program in plane.programs.values()), flush=True)
    time.sleep(600)
"""
    tests = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    with tests:
        assert tests.stdout is not None
        started = [Path("/proc", pid) for pid in tests.stdout.readline().split()]
        assert len(started) == 3
        assert all(process.exists() for process in started)
        tests.send_signal(signal.SIGKILL)
    eventually(lambda: not any(alive(process) for process in started), "the kernel has ended them all")


def alive(process: Path) -> bool:
    """Whether it still runs; one that nobody has buried yet does not."""
    try:
        return (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
