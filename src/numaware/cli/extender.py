"""`numaware extender`: an HTTP extender that answers kube-scheduler and Volcano from the twins of their nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

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
from numaware.errors import InputError

app = App(name="extender", usage="Usage: numaware extender [COMMAND] [OPTIONS]")

_MOST_WEIGHT = 100


@app.default
def extender(
    *,
    listen: Annotated[str, option("Where the other scheduler asks.")] = "127.0.0.1:9443",
    tls: TlsOptions = NO_TLS,
    client_ca: Annotated[
        Path | None,
        optional("Answer only clients with a certificate of this authority; needed beyond this machine."),
    ] = None,
    token_file: Annotated[
        Path | None,
        optional("File with the token that the scheduler has to send; needed without --client-ca."),
    ] = None,
    unknown: Annotated[
        Literal["pass", "refuse"], option("What to say of nodes that nobody publishes the NUMA nodes of.")
    ] = "pass",
    cluster: ClusterOptions = USUAL_CLUSTER,
    log: LogFormat = "text",
) -> int:
    """Answer kube-scheduler or Volcano: which of these nodes will admit the pod, and how good each is.

    Nothing has to be migrated: the scheduler that is there asks before it
    binds. `numaware extender config` prints what to paste into its
    configuration. What it may do is in deploy/rbac/extender.yaml.

    For example:

      numaware extender --token-file token
      numaware extender --listen :9443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt
      numaware extender config
    """
    from numaware.serve.daemons import ExtenderOptions, run_extender  # noqa: PLC0415 - only now is a server needed

    options = ExtenderOptions(listen, tls.for_server(client_ca), token_file, unknown, log)
    return run_until_signal(run_extender(cluster.kubeconfig, cluster.context, options), busy=True) or 0


@app.command
def config(
    *,
    scheduler: Annotated[
        Literal["kube-scheduler", "volcano"], Parameter(name="--for", help="Whose configuration.")
    ] = "kube-scheduler",
    url: Annotated[str, option("Where the extender is, seen from there.")] = "http://127.0.0.1:9443",
    token_file: Annotated[
        Path | None, optional("The extender's token, to be sent as part of the URL.")
    ] = None,
    fail: Annotated[
        Literal["open", "closed"],
        option(
            "While the extender is away: pods wait (closed), or are placed without it, and then kube-scheduler "
            "binds by itself at all times (open)."
        ),
    ] = "closed",
    weight: Annotated[int, option("What its opinion weighs beside others' (kube-scheduler).")] = 10,
    send_nodes: Annotated[bool, flag("Have whole Node objects sent instead of names; slow.")] = False,
    managed: Annotated[
        tuple[str, ...],
        repeatable("Ask only about pods that want this resource; repeatable. All if not given."),
    ] = (),
    kubeconfig: Annotated[
        str, option("Where kube-scheduler's own kubeconfig is, seen from there.")
    ] = "/etc/kubernetes/scheduler.conf",
) -> int:
    """Print what makes another scheduler ask the extender.

    For kube-scheduler that is a whole configuration, to be given to it as
    --config; for Volcano a plugin for a tier. What the extender refuses no
    scheduler binds. While it is away pods wait, and are placed once it is
    back; --fail open says otherwise, at the price that two pods which come
    close after each other may be promised the same CPUs.

    For example:

      numaware extender config --token-file token > kube-scheduler.yaml
      numaware extender config --for volcano --url http://numaware-extender.numaware:9443
      numaware extender config --fail open --managed nvidia.com/gpu
    """
    from numaware.serve import extender_config  # noqa: PLC0415 - keeps serve out of every other verb

    if not url.startswith(("http://", "https://")):
        raise InputError("--url", f"{url!r} is no http or https address")
    if not 1 <= weight <= _MOST_WEIGHT:
        raise InputError("--weight", f"{weight} is not from 1 to {_MOST_WEIGHT}")
    address = url.rstrip("/")
    if token_file is not None:
        from numaware.web import read_token  # noqa: PLC0415 - brings the HTTP server along

        scheme, slashes, rest = address.partition("://")
        address = f"{scheme}{slashes}numaware:{quote(read_token(token_file), safe='')}@{rest}"
    if scheduler == "volcano":
        text = extender_config.for_volcano(address, fail=fail, managed=managed)
    else:
        text = extender_config.for_kube_scheduler(
            address,
            fail=fail,
            weight=weight,
            node_cache=not send_nodes,
            managed=managed,
            kubeconfig=kubeconfig,
        )
    sys.stdout.write(text)
    return 0
