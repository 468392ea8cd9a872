"""`numaware install`: the chart's objects in a cluster, without Helm."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, on_cluster
from numaware.cli.options import AsJson, flag, option, repeatable
from numaware.cli.output import write_json
from numaware.cli.tables import table
from numaware.kube.install.manifests import USUAL_IMAGE, Way, manifests, next_steps, objects

if TYPE_CHECKING:
    from numaware.kube.client import Client
    from numaware.kube.install.steps import Step

app = App(name="install", usage="Usage: numaware install [WAY] [OPTIONS]")

DryRun = Annotated[bool, flag("Ask the API server what would change, and change nothing.", "--dry-run")]
_DONE = {"create": "created", "change": "changed", "keep": "unchanged", "remove": "removed", "leave": "left"}
_WOULD = {"create": "to create", "change": "to change", "keep": "unchanged", "remove": "to remove"} | {
    "leave": "left"
}


@app.default
def install(
    way: Annotated[Way, Parameter(name="WAY", help="How numaware is used.")] = "beside-kube-scheduler",
    /,
    *,
    image: Annotated[str, option("Where nodes pull the image from.")] = USUAL_IMAGE,
    node: Annotated[
        list[str] | None, repeatable("A node that kube-scheduler runs on, for inside-kube-scheduler.")
    ] = None,
    dry_run: DryRun = False,
    manifests_only: Annotated[
        bool, flag("Write the manifests, for kubectl or git, and ask no cluster.", "--manifests")
    ] = False,
    cluster: ClusterOptions = USUAL_CLUSTER,
    as_json: AsJson = False,
) -> int:
    """Install numaware into a cluster: what the chart installs, without Helm.

    beside-kube-scheduler   places pods that say schedulerName: numaware
    inside-kube-scheduler   kube-scheduler asks before it binds (name its nodes with --node)
    inside-volcano          Volcano asks, and openFuyao's names are there
    observe-only            agents and console: see, decide nothing

    The API server judges all of it first; if it would refuse anything,
    nothing is changed. Called again, with another way or by a newer release,
    it changes what is others and removes what is not wanted any more. It
    touches nothing that it has not made. Who wants to set more takes the
    chart (deploy/helm/numaware); `numaware uninstall` takes all away.

    Exit code: 0 installed, or would be; 1 the API server refuses; 2 bad input.

    For example:

      kubectl numa install --dry-run
      numaware install --image registry.example.org/numaware:0.1.0
      numaware install inside-kube-scheduler --node control-plane-1
      numaware install observe-only --manifests > numaware.yaml
    """
    text = manifests(way, image, node or ())
    if manifests_only:
        sys.stdout.write(text)
        return 0
    wanted = objects(text)

    async def work(client: Client, _: str) -> tuple[list[Step], bool]:
        from numaware.kube.install.steps import carried_out, planned  # noqa: PLC0415 - the wires, needed only now

        steps = await planned(client, wanted)
        if dry_run or refused(steps):
            return steps, False
        return await carried_out(client, steps, wanted), True

    steps, begun = on_cluster(cluster, work)
    show(steps, begun=begun, as_json=as_json)
    if begun and not refused(steps) and not as_json:
        sys.stdout.write(f"\n{next_steps(way, node or ())}\n")
    return int(refused(steps))


def refused(steps: Sequence[Step]) -> bool:
    return any(step.action == "refuse" for step in steps)


def show(steps: Sequence[Step], *, begun: bool, as_json: bool) -> None:
    """What was done, or would be, with each object; at the end in one line."""
    if as_json:
        write_json([_document(step) for step in steps])
        return
    words = _DONE if begun else _WOULD
    rows = [
        (
            words.get(step.action, "refused"),
            step.kind,
            f"{step.namespace}/{step.name}" if step.namespace else step.name,
            step.why,
        )
        for step in steps
    ]
    heading, *lines = table(("", "KIND", "NAME", ""), rows)
    sys.stdout.write(heading if rows else "")
    for step, line in zip(steps, lines, strict=True):
        sys.stdout.write(line)
        sys.stdout.writelines(f"    {change}\n" for change in step.changes)
    counted = Counter(row[0] for row in rows)
    told = ", ".join(f"{count} {word}" for word, count in counted.items()) or "nothing of numaware is there"
    sys.stdout.write(f"{told}{'' if begun else '; nothing has been changed'}\n")


def _document(step: Step) -> dict[str, object]:
    return {
        "action": step.action,
        "kind": step.kind,
        "namespace": step.namespace,
        "name": step.name,
        "changes": list(step.changes),
        "why": step.why,
    }
