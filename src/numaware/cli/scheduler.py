"""`numaware scheduler`: the options of the scheduler, and its start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from numaware.cli.live_input import (
    NO_TLS,
    USUAL_CLUSTER,
    ClusterOptions,
    LogFormat,
    TlsOptions,
    run_until_signal,
)
from numaware.cli.options import flag, option, optional, repeatable
from numaware.cli.profile_input import ProfileName, load_profile
from numaware.errors import InputError

app = App(name="scheduler", usage="Usage: numaware scheduler [OPTIONS]")

_NAME = "numaware"


@app.default
def scheduler(
    *,
    name: Annotated[
        tuple[str, ...],
        repeatable(
            "The schedulerName of the pods to schedule, or NAME=PROFILE to place theirs for something else; repeatable."
        ),
    ] = (_NAME,),
    profile: ProfileName = None,
    listen: Annotated[str, option("Where /metrics, /healthz and /readyz are.")] = "127.0.0.1:10351",
    tls: TlsOptions = NO_TLS,
    lease: Annotated[
        str, option("The Lease, as NAMESPACE/NAME, by which several agree who leads.")
    ] = "numaware/numaware-scheduler",
    leader_election: Annotated[
        bool,
        Parameter(negative="--no-leader-election", help="Off: this is the only one, and begins at once."),
    ] = True,
    misses: Annotated[
        Path | None, optional("Keep predictions that kubelets did not keep in this folder.")
    ] = None,
    clean_up_refused: Annotated[
        bool, flag("Delete pods of these names that a kubelet refused, as their owner has made new ones.")
    ] = False,
    cluster: ClusterOptions = USUAL_CLUSTER,
    log: LogFormat = "text",
) -> int:
    """Schedule the pods that name this scheduler.

    Pods with `schedulerName: numaware` get a node whose kubelet will admit
    them; the placement that it will choose is written on the pod. A pod that
    no node takes says why, and by how much the nearest node missed it.

    Several can run: one leads, the others take over when it stops. What it may
    do is in deploy/rbac/scheduler.yaml.

    For example:

      numaware scheduler
      numaware scheduler --name numaware --name batch=pack
      numaware scheduler --kubeconfig ~/.kube/config --no-leader-election
    """
    from numaware.serve.daemons import SchedulerOptions, run_scheduler  # noqa: PLC0415 - only now is a server needed

    names = dict(_named(text) for text in name)
    namespace, slash, lease_name = lease.partition("/")
    if not slash or not namespace or not lease_name or "/" in lease_name:
        raise InputError("--lease", f"{lease!r} is not NAMESPACE/NAME")
    options = SchedulerOptions(
        names=tuple(names),
        profile=load_profile(profile),
        profiles={name: load_profile(text) for name, text in names.items() if text is not None},
        listen=listen,
        tls=tls.for_server(),
        lease=(namespace, lease_name) if leader_election else None,
        misses=misses,
        clean_up=clean_up_refused,
        log=log,
    )
    return run_until_signal(run_scheduler(cluster.kubeconfig, cluster.context, options), busy=True) or 0


def _named(text: str) -> tuple[str, str | None]:
    name, equals, path = text.partition("=")
    if not name or (equals and not path):
        raise InputError("--name", f"{text!r} is neither NAME nor NAME=PROFILE")
    return name, path if equals else None
