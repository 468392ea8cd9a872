"""`numaware scheduler`: the options of the scheduler, and its start."""

from __future__ import annotations

import re
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
from numaware.cli.profile_input import ProfileName, load_profile, profile_file
from numaware.errors import InputError
from numaware.kube.lease import LeaseTimes
from numaware.machine.words import printable

app = App(name="scheduler", usage="Usage: numaware scheduler [OPTIONS]")

_NAME = "numaware"
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 3600.0


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
    lease_duration: Annotated[
        str, option("How long the others leave a leader alone that does not renew its lease.")
    ] = "8s",
    renew_deadline: Annotated[
        str, option("A leader that could not renew its lease for so long gives up; less than the above.")
    ] = "5s",
    retry_period: Annotated[
        str, option("How often the lease is renewed; those who wait look twice as often.")
    ] = "1s",
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
    do is in deploy/rbac/scheduler.yaml. Files of profiles are read again when
    they change.

    For example:

      numaware scheduler
      numaware scheduler --name numaware --name batch=pack
      numaware scheduler --lease-duration 15s --renew-deadline 10s --retry-period 2s
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
        profile_files={
            name: path
            for name, text in {**names, "": profile}.items()
            if (path := profile_file(text)) is not None
        },
        listen=listen,
        tls=tls.for_server(),
        lease=(namespace, lease_name) if leader_election else None,
        lease_times=_times(lease_duration, renew_deadline, retry_period),
        misses=misses,
        clean_up=clean_up_refused,
        log=log,
    )
    return run_until_signal(run_scheduler(cluster.kubeconfig, cluster.context, options), busy=True) or 0


def _times(lease: str, renew: str, retry: str) -> LeaseTimes:
    """The times of the lease, as kube-scheduler takes them: 15s, 1m, 500ms."""
    texts = {"--lease-duration": lease, "--renew-deadline": renew, "--retry-period": retry}
    times = LeaseTimes(*(_seconds(name, text) for name, text in texts.items()))
    if not times.sensible:
        problem = (
            f"{lease} is not longer than --renew-deadline {renew}, or that not than --retry-period {retry}"
        )
        raise InputError("--lease-duration", problem, hint="as kube-scheduler has them: 15s, 10s and 2s")
    return times


def _seconds(name: str, text: str) -> float:
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        problem = f"{printable(text, 40)!r} is no time between 0 and an hour"
        raise InputError(name, problem, hint="for example 15s, 500ms or 1m")
    return seconds


def _named(text: str) -> tuple[str, str | None]:
    name, equals, path = text.partition("=")
    if not name or (equals and not path):
        raise InputError("--name", f"{text!r} is neither NAME nor NAME=PROFILE")
    return name, path if equals else None
