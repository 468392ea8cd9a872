"""`numaware agent`: the options of the node's agent, and its start."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from numaware.cli.live_input import (
    NO_TLS,
    ClusterOptions,
    LogFormat,
    TlsOptions,
    run_until_signal,
)
from numaware.cli.options import flag, known_as_flag, option, optional, repeatable
from numaware.errors import InputError

app = App(name="agent", usage="Usage: numaware agent [OPTIONS]")

_CONFIGZ = "configz"


@Parameter(name="*")
@dataclass(frozen=True)
class KubeletOptions:
    """Where the kubelet is that may be changed; what is not said is found."""

    kubelet_unit: Annotated[str, optional("The unit of systemd that runs the kubelet.")] = ""
    kubelet_kubeconfig: Annotated[
        str, optional("The kubelet's own kubeconfig, with which its Node is cordoned and drained.")
    ] = ""
    journal: Annotated[
        Path | None,
        optional(
            "Where switches are written down; var/lib/numaware/kubelet-switch below --root if not given."
        ),
    ] = None
    machine_root: Annotated[
        Path | None, optional("Where /sys and /proc of the machine are, if not below --root.")
    ] = None
    node_root: Annotated[
        Path | None, optional("Where the node's files are that are changed, if not below --root.")
    ] = None


USUAL_KUBELET = KubeletOptions()


@Parameter(name="*")
@dataclass(frozen=True)
class AgentCluster(ClusterOptions):
    """Which cluster, and where openFuyao's objects of runtime affinity are in it, in the words of openFuyao's plug-in."""

    kubeconfig: Annotated[
        str | None,
        known_as_flag(
            "Which kubeconfig; $KUBECONFIG, ~/.kube/config or the pod's own account if not given.",
            "kubeconfig",
            show_default=False,
        ),
    ] = None
    reconcile_time: Annotated[
        float,
        known_as_flag(
            "Seconds between two looks at openFuyao's switch and Whitelist, and between two reports of talk.",
            "reconcile-time",
        ),
    ] = 30.0
    config_namespace: Annotated[
        str, known_as_flag("The namespace of openFuyao's Oenuma and Whitelist.", "config-namespace")
    ] = "tcs"
    config_crdname: Annotated[str, known_as_flag("The name of openFuyao's Oenuma.", "config-crdname")] = (
        "podafi"
    )


USUAL_AGENT_CLUSTER = AgentCluster()


@app.default
def agent(
    *,
    node: Annotated[str, optional("The Node's name; $NODE_NAME or the host's name if not given.")] = "",
    root: Annotated[
        Path, option("Where the node's / is; another folder if it is mounted into a container.")
    ] = Path("/"),
    kubelet_root: Annotated[
        Path | None, optional("The kubelet's folder; var/lib/kubelet below --root if not given.")
    ] = None,
    kubelet_config: Annotated[
        str,
        optional(
            "The kubelet's configuration file, or `configz` to ask the kubelet through the API server; "
            "config.yaml in the kubelet's folder if not given."
        ),
    ] = "",
    device_plugins: Annotated[
        Path | None, optional("The folder of device plugins, if not in the kubelet's folder.")
    ] = None,
    publish: Annotated[
        bool, Parameter(negative="--no-publish", help="Keep the node's NodeResourceTopology true.")
    ] = True,
    placements: Annotated[
        bool, Parameter(negative="--no-placements", help="Write on each pod where it lies.")
    ] = True,
    fingerprint: Annotated[
        Literal["with-exclusive-resources", "all"], option("Which pods the fingerprint names.")
    ] = "with-exclusive-resources",
    volcano: Annotated[bool, flag("Publish Volcano's Numatopology too.")] = False,
    kai: Annotated[bool, flag("Write KAI's annotation on pods too.")] = False,
    listen: Annotated[str, option("Where /metrics, /healthz and /readyz are.")] = ":9201",
    metrics: Annotated[bool, Parameter(negative="--no-metrics", help="Answer Prometheus.")] = True,
    pods: Annotated[int, option("The most pods that have metrics of their own; 0 for none.")] = 500,
    allow_kubelet_changes: Annotated[
        bool, flag("Carry out KubeletPolicy objects: change this node's kubelet, and restart it.")
    ] = False,
    kubelet: KubeletOptions = USUAL_KUBELET,
    token_file: Annotated[
        Path | None, optional("Only who bears the token in this file gets metrics.")
    ] = None,
    affinity: Annotated[
        Literal["off", "observe", "nri", "cgroup"],
        option(
            "Look after pods that talk to each other: `observe` counts and plans, `nri` moves them through the container "
            "runtime, too, `cgroup` in the kernel's control groups, for runtimes without NRI."
        ),
    ] = "off",
    affinity_namespaces: Annotated[
        tuple[str, ...],
        repeatable(
            "Only pods of this namespace are moved; all but kube-system if not given.", show_default=False
        ),
    ] = (),
    affinity_period: Annotated[float, option("Seconds between two looks at who talks.")] = 5.0,
    affinity_source: Annotated[
        tuple[str, ...],
        repeatable(
            "What counts who talks: `sockets` (TCP, from the kernel's sockets), `conntrack` (UDP, too, from connection tracking), or the "
            "path of a file to which another program, such as oeAware's, appends who talks.",
            show_default=False,
        ),
    ] = (),
    affinity_budget: Annotated[
        float,
        option(
            "How much of a core counting may take, in percent; it is done less often where it would take more."
        ),
    ] = 2.0,
    affinity_memory: Annotated[
        Literal["leave", "prefer", "only"],
        option(
            "Memory of pods that are moved: `only` there, or `prefer` it for new containers where the runtime knows "
            "memory policies."
        ),
    ] = "leave",
    affinity_migrate: Annotated[
        int,
        option(
            "Megabytes a second of their memory that are brought after pods that are moved; 0 leaves it where it is."
        ),
    ] = 0,
    affinity_folder: Annotated[
        Path, option("Where it is kept who talks, and what containers had before they were moved.")
    ] = Path("/run/numaware"),
    nri_socket: Annotated[
        str, known_as_flag("Where the container runtime listens for its plug-ins.", "nri-socket")
    ] = "/var/run/nri/nri.sock",
    tls: TlsOptions = NO_TLS,
    cluster: AgentCluster = USUAL_AGENT_CLUSTER,
    log: LogFormat = "text",
) -> int:
    """Publish and export what is true of this node.

    Runs on every node, as a DaemonSet (deploy/agent/daemonset.yaml) or a
    systemd unit. It reads the machine from the kernel, asks the kubelet who
    holds what, and watches its state files: schedulers know of a change within
    a second, and nothing is written while nothing changes.

    For example:

      numaware agent --kubeconfig /etc/kubernetes/kubelet.conf
      numaware agent --no-publish --listen 127.0.0.1:9201
      numaware agent --root /host --volcano
      numaware agent --affinity observe
    """
    import_plain_logs()
    from numaware.affinity.chosen import Chosen  # noqa: PLC0415 - only now is all of it needed
    from numaware.node.affinity.in_cluster import SharedObjects  # noqa: PLC0415
    from numaware.node.affinity.worker import AffinityOptions  # noqa: PLC0415
    from numaware.node.agent import AgentOptions, run_agent  # noqa: PLC0415
    from numaware.node.kubelet_files import KubeletFiles  # noqa: PLC0415
    from numaware.node.kubelet_switch.worker import SwitchOptions  # noqa: PLC0415
    from numaware.node.publisher import Options  # noqa: PLC0415
    from numaware.node.traffic.sources import SOCKETS, check  # noqa: PLC0415
    from numaware.serve import logs  # noqa: PLC0415

    if not publish and not metrics and affinity == "off":
        raise InputError("--no-publish --no-metrics", "leave nothing to do")
    if not 0 <= pods <= 10_000:
        raise InputError("--pods", f"{pods} is outside 0 to 10000")
    if not 0.1 <= affinity_period <= 3600:
        raise InputError("--affinity-period", f"{affinity_period:g} is outside 0.1 to 3600 seconds")
    check(affinity_source)
    if not 0.01 <= affinity_budget <= 100:
        raise InputError("--affinity-budget", f"{affinity_budget:g} is outside 0.01 to 100 percent of a core")
    if not 0 <= affinity_migrate <= 100_000:
        raise InputError(
            "--affinity-migrate", f"{affinity_migrate} is outside 0 to 100000 megabytes a second"
        )
    if not 1 <= cluster.reconcile_time <= 3600:
        raise InputError("--reconcile-time", f"{cluster.reconcile_time:g} is outside 1 to 3600 seconds")
    folder = kubelet_root or root / "var/lib/kubelet"
    logs.set_up(log)
    run_until_signal(
        run_agent(
            AgentOptions(
                node=node or os.environ.get("NODE_NAME") or socket.gethostname().lower(),
                root=str(root),
                files=KubeletFiles(
                    folder,
                    None if kubelet_config == _CONFIGZ else Path(kubelet_config or folder / "config.yaml"),
                    device_plugins,
                ),
                publish=Options(str(root), placements, volcano, kai, fingerprint) if publish else None,
                kubeconfig=cluster.kubeconfig,
                context=cluster.context,
                listen=listen if metrics else None,
                tls=tls.for_server(),
                token=token_file,
                most_pods=pods,
                switch=SwitchOptions(
                    allow_kubelet_changes,
                    kubelet.node_root or root,
                    kubelet.machine_root,
                    "" if kubelet_config == _CONFIGZ else kubelet_config,
                    str(kubelet_root or ""),
                    kubelet.kubelet_unit,
                    kubelet.kubelet_kubeconfig,
                    kubelet.journal or (kubelet.node_root or root) / "var/lib/numaware/kubelet-switch",
                ),
                affinity=None
                if affinity == "off"
                else AffinityOptions(
                    affinity,
                    affinity_period,
                    sources=affinity_source or (SOCKETS,),
                    budget=affinity_budget,
                    memory=affinity_memory,
                    migrate=affinity_migrate * 1_000_000,
                    chosen=Chosen(affinity_namespaces),
                    nri=nri_socket,
                    folder=affinity_folder,
                    cluster=SharedObjects(
                        cluster.reconcile_time, cluster.config_namespace, cluster.config_crdname
                    ),
                ),
            )
        )
    )
    return 0


def import_plain_logs() -> None:
    """Structlog draws tracebacks with rich where it finds it: megabytes, on every node, for what nobody there looks at."""
    if "rich" in sys.modules:
        return
    # What importing something takes for "not installed".
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401, PLC0415
    finally:
        del sys.modules["rich"]
