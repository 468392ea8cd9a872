"""`numaware simulate`: a trace of pods on a cluster of twins, several schedulers side by side."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from numaware.cli.file_input import read_file
from numaware.cli.lab_input import ClusterName, Policy, Scope, load_cluster, load_trace
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions
from numaware.cli.options import AsJson, flag, option, repeatable
from numaware.cli.output import deliver, write_json
from numaware.cli.profile_input import ProfileName, load_profile
from numaware.cli.progress import progress_bars
from numaware.cli.simulate_view import table
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.profile import Profile
from numaware.simulate import journal, report
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.policies import POLICIES
from numaware.simulate.result import Result
from numaware.simulate.run import check_events
from numaware.simulate.sweep import EngineName, Job, Listener, plan, run_all
from numaware.simulate.traces import Trace, joined
from numaware.workload.pod import Pod

app = App(name="simulate", usage="Usage: numaware simulate CLUSTER TRACE [OPTIONS]")

DEFAULT_SEED = 42
_MOST_ARRIVALS = 100.0


@app.default
def simulate(
    cluster: ClusterName,
    trace: Annotated[
        str,
        Parameter(
            name="TRACE",
            help="A trace file, Kubernetes YAML, openb:PODS.csv, dlrm:PODS.csv, or lab:COUNT (the console's pods).",
        ),
    ],
    /,
    *,
    policy: Annotated[
        tuple[str, ...], repeatable(f"Whose rule chooses nodes; repeatable. One of {', '.join(POLICIES)}.")
    ] = ("numaware", "kube-scheduler"),
    seed: Annotated[tuple[int, ...], repeatable("What decides every draw; repeatable.")] = (DEFAULT_SEED,),
    arrive: Annotated[
        float | None,
        option("Draw pods at random until they ask for so much of all GPUs (1.3 is 130 %); none leaves."),
    ] = None,
    limit: Annotated[int | None, option("Take the first so many pods only.")] = None,
    timed: Annotated[bool, flag("Let pods of an openb: or dlrm: trace come and go as it says.")] = False,
    kubelet_policy: Policy = None,
    scope: Scope = None,
    profile: ProfileName = None,
    live: ClusterOptions = USUAL_CLUSTER,
    engine: Annotated[
        EngineName, option("Play on the cores of this machine, or on a Ray cluster.")
    ] = "local",
    workers: Annotated[int | None, option("Processes on this machine; one per core if not given.")] = None,
    resume: Annotated[
        Path | None, option("Keep finished runs in this file, and do not play those in it again.")
    ] = None,
    out: Annotated[Path | None, option("Write a report with plots, one HTML file.")] = None,
    lang: Annotated[Lang, option("The language of the table: en or zh.")] = "en",
    as_json: AsJson = False,
) -> int:
    """Play a trace of pods on a cluster, and compare schedulers.

    Each policy chooses nodes by its own rule and knowledge; then the twin of
    the node's kubelet admits the pod or refuses it, as the kubelet itself
    would. Refused pods are made anew by their owners, so that loops show.
    The same seed gives the same numbers, but for decisions per second.

    A cluster file lists machines (captures, short forms such as '2x14') with
    their kubelets, a trace the pods that come and what happens to nodes; see
    docs/lab.md and the folder examples. With live: it is the machines of a
    cluster that runs, empty; nothing is changed there.

    Exit code: 0 all runs were played, 2 bad input, 130 stopped by Ctrl-C.

    For example:

      numaware simulate examples/p100.yaml examples/p100.yaml
      numaware simulate openb:nodes.csv openb:pods.csv --arrive 1.3 --kubelet-policy none
      numaware simulate dlrm:400 dlrm:pods.csv --limit 2500 --policy kai
      numaware simulate lab.yaml pods.yaml --policy numaware --policy kai --out report.html
      numaware simulate live: lab:600 --policy numaware --policy volcano
    """
    _check(policy, arrive, limit, workers)
    wanted = load_profile(profile)
    place = load_cluster(cluster, kubelet_policy, scope, live)
    played = load_trace(trace, whole_cpus=place.whole_cpus, timed=timed)
    for source, events in ((cluster, place.own.node_events), (trace, played.node_events)):
        check_events(place.cluster, events, source)
    if arrive is not None:
        played = msgspec.structs.replace(played, arrive=round(arrive * 1000))
    if limit is not None:
        played = msgspec.structs.replace(played, limit=limit)
    if cluster != trace:
        played = joined(place.own, played)
    jobs = plan([(place.cluster, played)], list(dict.fromkeys(policy)), list(dict.fromkeys(seed)), wanted)
    if out is not None and not out.parent.is_dir():
        raise InputError(printable(str(out)), "there is no such folder to write to")
    assumed = place.notes(_asking(played))
    notes = [*map(str, assumed)]
    results = _play(jobs, _Journal(resume, place.cluster, played, wanted), engine, workers)
    if out is not None:
        settings = {
            "kubelets": _kubelets(place.cluster),
            "seeds": ", ".join(map(str, dict.fromkeys(seed))),
            "profile": profile or "default",
            **({"assumed": " ".join(notes)} if notes else {}),
            **({"arriving": f"{100 * arrive:g} % of all GPUs"} if arrive is not None else {}),
        }
        page = report.render(
            results, title="Policies side by side", cluster=cluster, trace=trace, settings=settings
        )
        deliver(page, out)
    if as_json:
        write_json({"runs": list(map(_entry, results)), "notes": notes}, indent=2)
    else:
        sys.stdout.write(table(results, assumed, lang))
    return 0


def _asking(trace: Trace) -> Iterator[Pod]:
    """A pod of each kind that comes."""
    yield from (one.pod for one in trace.pods)
    yield from (shape.pod for generator in trace.generators for shape in generator.shapes)


def _check(policies: Sequence[str], arrive: float | None, limit: int | None, workers: int | None) -> None:
    for name in policies:
        if name not in POLICIES:
            hint = f"known: {', '.join(POLICIES)}"
            raise InputError("--policy", f"{printable(name, 60)!r} is no policy", hint=hint)
    if arrive is not None and not 0 < arrive <= _MOST_ARRIVALS:
        raise InputError("--arrive", f"{arrive} is not a share of all GPUs", hint="1.3 stands for 130 %")
    if limit is not None and limit < 1:
        raise InputError("--limit", f"{limit} pods are none")
    if workers is not None and workers < 1:
        raise InputError("--workers", f"{workers} processes are none")


def _entry(result: Result) -> dict[str, Any]:
    """One run for programs: all that people read of it."""
    return {
        **msgspec.to_builtins(result.run),
        "cluster": result.cluster,
        "trace": result.trace,
        "nodes": result.nodes,
        "refusalsPerThousand": result.refusals_per_thousand,
        "waitMeanMs": result.wait_mean_ms,
        "storms": result.storms,
        "talk": result.talk,
    }


def _kubelets(cluster: ClusterSpec) -> str:
    policies = {(node.config.topology_policy, node.config.topology_scope) for node in cluster.nodes}
    return ", ".join(f"{policy} ({scope})" for policy, scope in sorted(policies))


class _Journal:
    """Finished runs in a file, if there is to be one."""

    def __init__(self, path: Path | None, cluster: ClusterSpec, trace: Trace, profile: Profile) -> None:
        self.path = path
        self.about = journal.subject(cluster, trace, profile) if path else ""
        self.done: dict[tuple[str, int], Result] = {}
        if path is not None and path.exists():
            self.done = journal.read(read_file(path, journal.MOST_BYTES), str(path), self.about)

    def add(self, result: Result) -> None:
        self.done[result.run.policy, result.run.seed] = result
        if self.path is not None:
            deliver(journal.write(self.about, list(self.done.values())), self.path)


def _play(jobs: Sequence[Job], kept: _Journal, engine: EngineName, workers: int | None) -> list[Result]:
    left = [job for job in jobs if (job.policy, job.seed) not in kept.done]
    with _progress(left) as moved:
        run_all(
            left,
            engine=engine,
            workers=workers,
            listener=Listener(moved, lambda _number, result: kept.add(result)),
        )
    return [kept.done[job.policy, job.seed] for job in jobs]


@contextlib.contextmanager
def _progress(jobs: Sequence[Job]) -> Iterator[Callable[[int, int, int], None]]:
    """One bar for each run that is being played, for the one who waits; nothing where nobody looks."""
    with progress_bars(_columns, visible=bool(jobs)) as bars:
        names = [f"{job.policy}, seed {job.seed}" for job in jobs]
        tasks = [bars.add_task(name, total=None, visible=False) for name in names] if bars else []

        def moved(number: int, done: int, everything: int) -> None:
            if bars:
                bars.update(tasks[number], completed=done, total=everything, visible=done < everything)

        yield moved


def _columns(rich: Any) -> tuple[Any, ...]:
    text = rich.TextColumn("{task.description}")
    return text, rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn()
