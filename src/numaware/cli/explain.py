"""`numaware explain`: what the kubelet of a node will do with a pod, why, and which changes would admit it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from msgspec.structs import replace

from numaware.cli.dra_input import dra_known
from numaware.cli.explain_view import lines, note, paragraph, phrase, separated
from numaware.cli.file_input import read_file, source_of
from numaware.cli.live_input import (
    USUAL_CLUSTER,
    ClusterOptions,
    Language,
    check_nodes,
    find_pod,
    look_at,
)
from numaware.cli.node_input import LoadedNode, Options, load_node
from numaware.cli.options import AsJson, dashed, flag, option, optional, repeatable
from numaware.cli.output import write_json
from numaware.diagnose.explain.explanation import Explanation, explain, to_builtins
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line
from numaware.sentence import Sentence
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.resize import resized
from numaware.twin.rules import modelled_as, named_version
from numaware.workload import manifest
from numaware.workload.manifest import Workload
from numaware.workload.yamlfile import MAX_BYTES

app = App(name="explain", usage="Usage: numaware explain FILE --node NODE [OPTIONS]")

Answer = tuple[Workload, list[Explanation]]


@app.default
def explain_pods(
    file: Annotated[
        str, dashed("A Pod, or anything with a pod template (Deployment, Job, ...); - is stdin.", "FILE")
    ],
    /,
    *,
    node: Annotated[
        tuple[str, ...],
        repeatable(
            "A node's folder, / for this machine, a capture or topology JSON, or a short form; repeatable.",
            "--node",
        ),
    ],
    kubelet_config: Annotated[
        Path | None, option("The kubelet's configuration, instead of the one in the node's folder.")
    ] = None,
    kubelet_flags: Annotated[str, dashed("Kubelet flags in one string; they win over every file.")] = "",
    kubelet_version: Annotated[
        str,
        optional(f"The kubelet's version, such as v1.27.3; {DEFAULT_VERSION} where nothing says another."),
    ] = "",
    state: Annotated[
        tuple[Path, ...],
        repeatable(
            "State files, or the folder they are in, instead of those in the node's folder; repeatable.",
            show_default=False,
        ),
    ] = (),
    devices: Annotated[
        tuple[str, ...],
        repeatable(
            "RESOURCE=NODE,NODE,...: one device on each NUMA node listed, - for one on none; repeatable.",
            show_default=False,
        ),
    ] = (),
    dra: Annotated[
        tuple[Path, ...],
        repeatable(
            "ResourceSlices, claims, templates and DeviceClasses (DRA), as kubectl prints them; repeatable.",
            show_default=False,
        ),
    ] = (),
    resize: Annotated[
        bool, flag("FILE is how a pod that runs there is to become: would the kubelet resize it in place?")
    ] = False,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """Ask what the kubelet of a node will do with a pod, before it is bound there.

    The verdict comes first; then where each container's CPUs, memory and
    devices would go, or why they cannot, and which changes would admit the
    pod: a smaller request, another policy, pods that would have to leave.
    Each change was tried before it is shown.

    A node's folder holds what you have of the node, each part optional but
    the first two:

      node7.tar.gz or topology.json     the machine: numaware topology capture
      kubelet-config.yaml               its kubelet's configuration
      kubelet-flags, kubelet-version    its flags, what kubelet --version says
      cpu_manager_state, memory_manager_state, kubelet_internal_checkpoint
      pods.json                         kubectl get pods -A -o json, for names
      dra.yaml, dra.json                what --dra is given otherwise

    On the node itself, --node / finds all of them in their places. Without
    state files nothing runs there yet. In a short form, '2x16' is 2 NUMA
    nodes of 16 CPUs, '2s x 2n x 16c x 2t +gpu@0,2' a larger machine.

    Devices that come by DRA have no say in the verdict, and nothing aligns
    them: with --dra (or claims in FILE itself) the answer says so, and where
    they are beside the CPUs.

    With --resize the pod runs on the node already (pods.json tells its uid)
    and FILE is how it is to become: accepted, Deferred until there is room,
    or Infeasible, with the kubelet's words.

    Exit code: 0 every pod is admitted by some node, 1 some pod by none,
    2 bad input.

    For example:

      numaware explain pod.yaml --node /
      numaware explain larger.yaml --node nodes/gpu-07 --resize
      numaware explain pod.yaml --node nodes/gpu-07 --node nodes/gpu-08
      kubectl get pod trainer -o yaml | numaware explain - --node nodes/gpu-07
      numaware explain job.yaml --node '2x16 +gpu@0,1' --kubelet-config kubelet.yaml
    """
    if state and len(node) > 1:
        hint = "put the files into each node's folder"
        raise InputError("--state", f"is one node's, and {len(node)} nodes are given", hint=hint)
    options = Options(kubelet_config, kubelet_flags, kubelet_version, state, devices)
    source = source_of(file)
    data = read_file(file, MAX_BYTES)
    given = manifest.read(data, source)
    nodes = [load_node(text, options) for text in node]
    if resize:
        return _resizes(given.workloads, nodes, as_json=as_json)
    known, about_slices = dra_known(data, source, dra, nodes)
    answers = [
        (workload, [explain(loaded.name, loaded.node, workload.pod, dra=known) for loaded in nodes])
        for workload in given.workloads
    ]
    notes = [
        Sentence("{source}: {problem}", source=f"{source}:{problem.line}", problem=problem.sentence)
        for problem in given.problems
    ]
    notes += [
        Sentence("{source}: {problem}", source=loaded.name, problem=note)
        for loaded in nodes
        for note in loaded.notes
    ]
    notes += about_slices
    if as_json:
        pods = [
            to_builtins(one, workload.spec_path, lang)
            for workload, explanations in answers
            for one in explanations
        ]
        write_json({"pods": pods, "notes": [str(sentence) for sentence in notes]}, indent=2)
    else:
        terminal.write(_page(answers, notes, terminal.reading_width(sys.stdout), lang), sys.stdout)
    return int(not all(any(one.admitted for one in explanations) for _, explanations in answers))


def _resizes(workloads: Sequence[Workload], nodes: Sequence[LoadedNode], *, as_json: bool) -> int:
    """The answers to pods that are to be resized, one line each."""
    found = []
    for workload in workloads:
        running = [
            (loaded, uid)
            for loaded in nodes
            for uid, pod in loaded.node.state.pods.items()
            if (pod.namespace, pod.name) == (workload.namespace, workload.pod.name)
        ]
        if not running:
            name = f"{workload.namespace}/{workload.pod.name}"
            raise InputError(
                name, "runs on none of these nodes", hint="pods.json in the node's folder tells which pods do"
            )
        for loaded, uid in running:
            minor = loaded.node.kubelet.rules.minor
            if minor < 33:
                raise InputError(loaded.name, Sentence("in-place resize is off by default before v1.33"))
            found.append((workload, loaded, resized(loaded.node, replace(workload.pod, uid=uid))))
    if as_json:
        pods = [
            {
                "pod": {"namespace": workload.namespace, "name": workload.pod.name},
                "node": loaded.name,
                "kubelet": {
                    "version": loaded.node.kubelet.config.version,
                    "modelledAs": modelled_as(loaded.node.kubelet.config.version) or None,
                },
                "resize": answer.outcome,
                "message": answer.message,
            }
            for workload, loaded, answer in found
        ]
        write_json({"pods": pods}, indent=2)
    else:
        for workload, loaded, answer in found:
            version = named_version(loaded.node.kubelet.config.version)
            said = f": {answer.message}" if answer.message else ""
            sys.stdout.write(
                f"{workload.namespace}/{workload.pod.name} on {loaded.name} (kubelet {version}): {answer.outcome}{said}\n"
            )
    return int(any(answer.outcome != "accepted" for _, _, answer in found))


def _page(answers: list[Answer], notes: list[Sentence], room: int, lang: Lang) -> list[Line]:
    blocks: list[Iterator[Line]] = []
    for workload, explanations in answers:
        if len(explanations) > 1:
            admitting = [one.name for one in explanations if one.admitted]
            summary = phrase(
                "explain-several",
                lang,
                pod=f"{workload.namespace}/{workload.pod.name}",
                count=len(admitting),
                nodes=len(explanations),
                **({"names": admitting} if admitting else {}),
            )
            blocks.append(paragraph(summary, room, style="bold"))
        blocks += [lines(one, room, lang) for one in explanations]
    page = separated(blocks)
    if notes:
        page.append(())
    for sentence in notes:
        page += note(sentence, room, lang)
    return page


@app.command(name="pod")
def explain_pod(
    pod: Annotated[str, Parameter(name="POD", help="NAMESPACE/NAME of a pod of the cluster.")],
    /,
    *,
    on: Annotated[
        tuple[str, ...], repeatable("A node to ask; its own, or every node, if not given; repeatable.")
    ] = (),
    cluster: ClusterOptions = USUAL_CLUSTER,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """Ask what kubelets of a live cluster would do with a pod of it, if it came now.

    The pod may wait, run, or have been refused; its own share of the node is
    given back before its kubelet's twin is asked.

    Exit code: 0 some node admits it, 1 none does, 2 bad input.

    For example:

      numaware explain pod ml/trainer-0
      numaware explain pod ml/trainer-0 --on gpu-07 --json
    """
    cache, _ = look_at(cluster)
    live = find_pod(cache, pod)
    known = cache.engine.cluster
    chosen = on or ((live.node,) if live.node else tuple(known.by_name))
    check_nodes(chosen, known.by_name)
    # Seen without the pod itself: what would its kubelet say if it came now?
    cache.drop_pod(live.uid)
    from numaware.schedule.tried_changes import explained_by  # noqa: PLC0415 - needed only now

    explanations = [explained_by(cache.engine, name, live.pod) for name in chosen]
    if as_json:
        write_json({"pods": [to_builtins(one, lang=lang) for one in explanations]})
    else:
        room = terminal.reading_width(sys.stdout)
        terminal.write(separated(lines(one, room, lang) for one in explanations), sys.stdout)
    return int(not any(one.admitted for one in explanations))
