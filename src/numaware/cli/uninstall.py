"""`numaware uninstall`: away with all that `numaware install` has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App

from numaware.cli.install import DryRun, refused, show
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, on_cluster
from numaware.cli.options import AsJson, flag

if TYPE_CHECKING:
    from numaware.kube.client import Client
    from numaware.kube.install.steps import Step

app = App(name="uninstall", usage="Usage: numaware uninstall [OPTIONS]")


@app.default
def uninstall(
    *,
    kinds: Annotated[
        bool, flag("Remove the kinds, too, with all that was published in them and every KubeletPolicy.")
    ] = False,
    dry_run: DryRun = False,
    cluster: ClusterOptions = USUAL_CLUSTER,
    as_json: AsJson = False,
) -> int:
    """Remove from a cluster what `numaware install` has made, and nothing else.

    The namespace goes too if it was made by `numaware install`, with all that
    is in it. Pods that numaware has placed go on running; those that still
    wait for it (schedulerName: numaware) wait until it is back.

    Exit code: 0 removed, or would be; 1 the API server refuses; 2 bad input.

    For example:

      numaware uninstall --dry-run
      numaware uninstall
      numaware uninstall --kinds
    """

    async def work(client: Client, _: str) -> list[Step]:
        from numaware.kube.install.steps import carried_out, removal  # noqa: PLC0415 - the wires, needed only now

        steps = await removal(client, kinds=kinds)
        return steps if dry_run else await carried_out(client, steps)

    steps = on_cluster(cluster, work)
    show(steps, begun=not dry_run, as_json=as_json)
    return int(refused(steps))
