"""`numaware kubelet`: the kubelet of this node from the configuration in force to a wanted one, and back."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import App, Parameter

from numaware.cli.file_input import read_file
from numaware.cli.kubelet_view import ending, page, plan_json, progress, write
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, Language, run_until_signal
from numaware.cli.machine_input import check_version
from numaware.cli.options import AsJson, flag, option, optional, repeatable
from numaware.cli.output import tell
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.node.kubelet_switch import edit, journal
from numaware.node.kubelet_switch.plan import Manner, Plan, Situation, plan_content
from numaware.node.kubelet_switch.plan import plan as work_out
from numaware.node.kubelet_switch.unit import Systemd, check_unit
from numaware.sentence import Sentence
from numaware.workload.yamlfile import MAX_BYTES

if TYPE_CHECKING:
    from numaware.node.kubelet_switch.cluster import ClusterNode
    from numaware.node.kubelet_switch.executor import Executor, Outcome
    from numaware.node.kubelet_switch.place import Place

T = TypeVar("T")
_MOST_SECONDS = 86_400
_PATIENCE = Sentence(
    "Still putting everything back; after a kill, `numaware kubelet apply --resume` would have to go on with that."
)

app = App(name="kubelet", help="Switch the policies of this node's kubelet, safely, and back.")


@Parameter(name="*")
@dataclass(frozen=True)
class NodeOptions:
    """Which kubelet: found on this node, unless something else is said."""

    root: Annotated[Path, option("Where the node's / is.")] = Path("/")
    config: Annotated[str, optional("The configuration file, if the kubelet's own is not the one.")] = ""
    kubelet_root: Annotated[str, optional("The kubelet's folder with its state files.")] = ""
    unit: Annotated[str, optional("The unit of systemd that runs the kubelet.")] = ""
    machine_root: Annotated[
        Path | None, optional("Where /sys and /proc of the machine are, if not below --root.")
    ] = None
    kubelet_version: Annotated[
        str, optional("The kubelet's version; the API server tells it, or the newest known is taken.")
    ] = ""
    node: Annotated[str, optional("The Node's name; $NODE_NAME or the host's name if not given.")] = ""
    journal: Annotated[Path, option("Where switches are written down, and files kept as they were.")] = (
        journal.FOLDER
    )


USUAL_NODE = NodeOptions()


@Parameter(name="*")
@dataclass(frozen=True)
class Wish:
    """What is wanted, and how."""

    set: Annotated[
        list[str] | None,
        repeatable("FIELD=VALUE, or FIELD.KEY=VALUE for one option; may be repeated."),
    ] = None
    unset: Annotated[list[str] | None, repeatable("FIELD or FIELD.KEY to take away; may be repeated.")] = None
    to: Annotated[
        Path | None, optional("A KubeletConfiguration, or a piece of one, whose fields are wanted.")
    ] = None
    drain: Annotated[bool, flag("Evict the pods that can move, before the kubelet stops.")] = False
    force: Annotated[bool, flag("Evict also pods that nobody makes anew.")] = False
    drain_timeout: Annotated[float, option("Seconds that a drain may take.")] = 300.0

    def wanted(self) -> dict[str, Any]:
        wanted = edit.wanted_in(read_file(self.to, MAX_BYTES), str(self.to)) if self.to else {}
        wanted |= edit.wanted_of(self.set or (), self.unset or ())
        _check_seconds("--drain-timeout", self.drain_timeout)
        if not wanted:
            hint = "for example --set topologyManagerPolicy=restricted"
            raise InputError("numaware kubelet", "nothing is asked for", hint=hint)
        return wanted


NO_WISH = Wish()


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds <= _MOST_SECONDS:
        raise InputError(name, f"{seconds:g} is outside 0 to {_MOST_SECONDS} seconds")


@Parameter(name="*")
@dataclass(frozen=True)
class Consent:
    """Whether it is done, and what of it is accepted."""

    yes: Annotated[bool, flag("Do it. Without, only the plan is shown.")] = False
    let_pods_end: Annotated[bool, flag("Go on although running pods would be ended.")] = False
    timeout: Annotated[float, option("Seconds that the kubelet has to come up.")] = 120.0


NO_CONSENT = Consent()


@app.command
def plan(
    *,
    wish: Wish = NO_WISH,
    node: NodeOptions = USUAL_NODE,
    cluster: ClusterOptions = USUAL_CLUSTER,
    as_json: AsJson = False,
    lang: Language = "en",
) -> int:
    """Show what a switch would do, step by step, and what would come of it. Nothing is touched.

    The twin of this kubelet is started with the configuration as it would be:
    if the kubelet would refuse it (an unknown option, an option without its
    gate, reserved memory that does not add up), it says so in the kubelet's
    words. State files that the kubelet would refuse are named with its reason;
    and so are running pods that it would end, since a kubelet that restarts
    admits every pod again.

    Recognised are kubelets of kubeadm, of plain systemd units (also with
    --config-dir), of k3s and of RKE2.

    Exit code: 0 it can be done, 1 it cannot or pods would end, 2 bad input.

    For example:

      sudo numaware kubelet plan --set topologyManagerPolicy=restricted
      sudo numaware kubelet plan --set cpuManagerPolicy=static --set reservedSystemCPUs=0-1 --drain
      sudo numaware kubelet plan --to wanted.yaml --json
      sudo numaware kubelet plan --set topologyManagerPolicyOptions.prefer-closest-numa-nodes=true
    """
    wanted = wish.wanted()

    async def work() -> Plan:
        async with _looking(node, cluster) as (situation, _):
            return work_out(situation, wanted, _manner(wish, node))

    made = _run(work(), lang)
    _show(made, as_json=as_json, lang=lang)
    return int(not made.possible or bool(made.ended))


@app.command
def apply(
    *,
    wish: Wish = NO_WISH,
    node: NodeOptions = USUAL_NODE,
    cluster: ClusterOptions = USUAL_CLUSTER,
    consent: Consent = NO_CONSENT,
    resume: Annotated[bool, flag("Take up a switch that a crash left half-way.")] = False,
    as_json: AsJson = False,
    lang: Language = "en",
) -> int:
    """Switch the kubelet: as planned, with a journal, and back to the byte if any step fails.

    Shows the plan as `numaware kubelet plan` does and, with --yes, carries it
    out: cordon, drain if asked for, stop the kubelet, copy and remove exactly
    the state files that it would refuse, write the configuration (comments and
    order stay), start, wait until it is ready, uncordon. Whatever fails or
    interrupts it, everything is put back.

    Each step is on the disk before it is done. After a crash, --resume goes on
    where it was, and `numaware kubelet rollback` goes back.

    Exit code: 0 applied or nothing to do, 1 not applied, 2 bad input.

    For example:

      sudo numaware kubelet apply --set topologyManagerPolicy=restricted --drain --yes
      sudo numaware kubelet apply --resume --yes
    """
    switch = _Switch(node, cluster, consent, as_json, lang)
    wanted = {} if resume else wish.wanted()

    async def work() -> int:
        with journal.locked(node.journal):
            if resume:
                return await switch.take_up(journal.half_way(node.journal), back=False)
            journal.check_whole(node.journal)
            async with _looking(node, cluster) as (situation, api):
                return await switch.carry_out(work_out(situation, wanted, _manner(wish, node)), api)

    return _run(work(), lang)


@app.command
def rollback(
    *,
    node: NodeOptions = USUAL_NODE,
    cluster: ClusterOptions = USUAL_CLUSTER,
    drain: Annotated[bool, flag("Evict the pods that can move, before the kubelet stops.")] = False,
    force: Annotated[bool, flag("Evict also pods that nobody makes anew.")] = False,
    consent: Consent = NO_CONSENT,
    as_json: AsJson = False,
    lang: Language = "en",
) -> int:
    """Go back: from a switch that was left half-way, or from the last one that was applied.

    A switch that a crash left half-way is undone step by step; every file is
    then as it was, to the byte. One that was applied is planned like any other
    switch, to the configuration file as it was before: the state files are of
    today, so those that the kubelet would refuse have to go.

    Exit code: 0 done, 1 not done, 2 bad input.

    For example:

      sudo numaware kubelet rollback
      sudo numaware kubelet rollback --yes
    """
    switch = _Switch(node, cluster, consent, as_json, lang)

    async def work() -> int:
        with journal.locked(node.journal):
            half_way = journal.half_way(node.journal)
            if half_way is not None:
                return await switch.take_up(half_way, back=True)
            last = journal.latest(node.journal)
            if last is None or last.ending != "applied":
                raise InputError(str(node.journal), Sentence("there is no switch to go back from"))
            async with _looking(node, cluster) as (situation, api):
                manner = _manner(Wish(drain=drain, force=force), node)
                return await switch.carry_out(plan_content(situation, last.before(node.root), manner), api)

    return _run(work(), lang)


def _run(work: Coroutine[Any, Any, T], lang: Lang = "en") -> T:
    """All of it, in one loop; a signal puts back what was begun, and further ones do not keep that from its end."""
    result = run_until_signal(work, again=lambda: write(_PATIENCE, lang))
    if result is None:
        raise KeyboardInterrupt
    return result


def _manner(wish: Wish, node: NodeOptions) -> Manner:
    folder = journal.next_folder(node.journal)
    return Manner(wish.drain, wish.force, wish.drain_timeout, str(folder.absolute()))


@asynccontextmanager
async def _looking(
    node: NodeOptions, cluster: ClusterOptions
) -> AsyncIterator[tuple[Situation, ClusterNode | None]]:
    from numaware.node.kubelet_switch.look import look, place_of  # noqa: PLC0415

    if node.kubelet_version:
        check_version("--kubelet-version", node.kubelet_version)
    place = place_of(node.root, unit=node.unit, config=node.config, kubelet_root=node.kubelet_root)
    async with _api(node, cluster, place) as api:
        yield await look(node.root, place, api, node.kubelet_version, node.machine_root), api


@asynccontextmanager
async def _api(node: NodeOptions, cluster: ClusterOptions, place: Place) -> AsyncIterator[ClusterNode | None]:
    """The API server that was named, or the kubelet's own; None where there is neither."""
    own = node.root / place.kubeconfig.lstrip("/") if place.kubeconfig else None
    kubeconfig = cluster.kubeconfig or (str(own) if own and own.exists() else None)
    if kubeconfig is None and cluster.context is None:
        yield None
        return
    # Only who speaks to a cluster pays for the wire.
    from numaware.kube.client import Client  # noqa: PLC0415
    from numaware.kube.config import connect  # noqa: PLC0415
    from numaware.node.kubelet_switch.cluster import ClusterNode  # noqa: PLC0415

    name = node.node or os.environ.get("NODE_NAME") or socket.gethostname().lower()
    async with Client(await connect(kubeconfig, cluster.context)) as client:
        await client.server_version()
        yield ClusterNode(client, name)


class _Switch:
    """One call of `apply` or `rollback`: on which node, with what consent, told how."""

    def __init__(
        self, node: NodeOptions, cluster: ClusterOptions, consent: Consent, as_json: bool, lang: Lang
    ) -> None:
        _check_seconds("--timeout", consent.timeout)
        self._node = node
        self._cluster = cluster
        self._consent = consent
        self._as_json = as_json
        self._lang: Lang = lang

    async def carry_out(self, made: Plan, api: ClusterNode | None) -> int:
        """Show the plan and, with consent, do it."""
        _show(made, as_json=self._as_json, lang=self._lang)
        if not made.steps or not made.possible:
            return int(not made.possible)
        if made.ended and not self._consent.let_pods_end:
            self._say(
                Sentence(
                    "Nothing was done: pods would be ended. --drain moves them first, --let-pods-end goes on."
                )
            )
            return 1
        if not self._agreed():
            return 1
        self._check_writable(made)
        await check_unit(self._unit(made.place), made.place.unit)
        book = journal.Journal(journal.next_folder(self._node.journal))
        recorded = made.recorded()
        book.open(recorded)
        return self._told(await self._executor(recorded, book, api).apply(), book)

    async def take_up(self, story: journal.Story | None, *, back: bool) -> int:
        """On with what a crash has left, or back from it."""
        if story is None:
            raise InputError(str(self._node.journal), Sentence("no switch of this node is half-way"))
        story.check_here()
        self._say(
            Sentence(
                "Half-way: {folder}, step {step} of {count}",
                folder=str(story.folder),
                step=min(story.next_step + 1, len(story.plan.steps)),
                count=len(story.plan.steps),
            )
        )
        if not self._agreed():
            return 1
        async with _api(self._node, self._cluster, story.plan.place) as api:
            if story.plan.node and api is None:
                problem = Sentence("the node was cordoned through an API server; name it")
                raise InputError("--kubeconfig", problem)
            book = journal.Journal(story.folder)
            worker = self._executor(story.plan, book, api)
            if not back:
                return self._told(await worker.resume(story), book)
            outcome = await worker.undo(story.next_step, Sentence("it was called back"))
            self._told(outcome, book)
            return int(outcome.result != "rolled-back")

    def _agreed(self) -> bool:
        if not self._consent.yes:
            self._say(Sentence("Nothing was done: --yes carries it out."))
        return self._consent.yes

    def _executor(self, plan: journal.Recorded, book: journal.Journal, api: ClusterNode | None) -> Executor:
        from numaware.node.kubelet_switch.executor import Executor  # noqa: PLC0415
        from numaware.node.kubelet_switch.steps import Hands  # noqa: PLC0415

        hands = Hands(self._node.root, self._unit(plan.place), api, plan.healthz, self._consent.timeout)
        return Executor(plan, book, hands, progress(plan.steps, self._lang))

    def _unit(self, place: Place) -> Systemd:
        return Systemd(place.unit, str(self._node.root))

    def _check_writable(self, made: Plan) -> None:
        """What can be known before anything is touched."""
        root = self._node.root
        for path in (root / made.place.file.lstrip("/"), root / made.place.kubelet_root.lstrip("/") / "x"):
            folder = path.resolve().parent
            while not folder.exists():
                folder = folder.parent
            if not os.access(folder, os.W_OK):
                hint = Sentence("are you root, and is it mounted read-only?")
                raise InputError(str(folder), Sentence("cannot be written"), hint=hint)

    def _told(self, outcome: Outcome, book: journal.Journal) -> int:
        self._say(ending(outcome, book.folder))
        return int(outcome.result != "applied")

    def _say(self, words: Sentence) -> None:
        write(words, self._lang)


def _show(made: Plan, *, as_json: bool, lang: Lang) -> None:
    tell(plan_json(made, lang).decode() if as_json else page(made, lang), sys.stdout)
