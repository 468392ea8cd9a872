"""`numaware affinity`: who talks to whom on this node, what the agent would do or has done about it, and whether it holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App

from numaware.affinity.plan import Answer, Plan
from numaware.cli.options import AsJson, option
from numaware.cli.output import write_json
from numaware.cli.tables import table
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, label
from numaware.errors import InputError
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import FolderTree
from numaware.machine.words import rounded
from numaware.node.affinity import status as status_file
from numaware.node.affinity.intent import Mismatch
from numaware.node.affinity.intent import verify as verify_processes
from numaware.node.affinity.pod_groups import read_pods
from numaware.node.affinity.status import AffinityStatus

app = App(name="affinity", help="See which pods of this node talk to each other, and sit together.")

_STALE_SECONDS = 60
_MOST_PODS = 2000
_From = Annotated[Path, option("The file that the agent keeps.")]
_Language = Annotated[Lang, option("The language of the answer.")]


@app.command
def show(*, status: _From = status_file.FILE, lang: _Language = "en", as_json: AsJson = False) -> int:
    """See who talks to whom on this node, and what was moved.

    The agent counts bytes between pods when it runs with --affinity. Moves
    are shown with what they were to save, and what stays on the NUMA node
    since then.

    For example:

      numaware affinity show
    """
    seen = status_file.read(status)
    if as_json:
        write_json(msgspec.json.decode(status_file.encode(seen)))
        return 0
    names = _names(seen)
    sys.stdout.writelines(f"{line}\n" for line in _head(seen, lang))
    talk = sorted(seen.talk, key=lambda one: (-one.rate, one.one, one.other))
    if talk:
        rows = [
            (names[one.one], names[one.other], _rate(one.rate))
            for one in talk
            if {one.one, one.other} <= names.keys()
        ]
        sys.stdout.writelines(table(("POD", "TALKS TO", "RATE"), rows))
    else:
        sys.stdout.write(label("affinity-nothing", lang) + "\n")
    for move in seen.moves:
        facts = {
            "pod": f"{move.namespace}/{move.name}",
            "target": move.target,
            "predicted": _rate(move.predicted),
        }
        if move.measured is not None:
            facts["measured"] = _rate(move.measured)
        sys.stdout.write(label(Message("affinity-measured", facts), lang) + "\n")
    for uid, done in seen.migrated.items():
        facts = {
            "pod": names.get(uid, uid),
            "moved": _size(done.moved),
            "left": _size(done.left),
            "target": done.node,
            "seconds": f"{done.milliseconds / 1000:.1f}",
            "stall": done.stall_microseconds,
        }
        sys.stdout.write(label(Message("affinity-migrated", facts), lang) + "\n")
    return 0


@app.command(name="plan")
def plan_(
    *,
    status: _From = status_file.FILE,
    fill: Annotated[int, option("How much of a NUMA node's CPUs may be promised, in percent.")] = 90,
    least: Annotated[int, option("What a move has to save, in bytes a second.")] = 1_000_000,
    lang: _Language = "en",
    as_json: AsJson = False,
) -> int:
    """See which pods should share a NUMA node, which stay, and why. Nothing is moved.

    Exit code: 0 everybody is where he should be, 1 some pod should move, 2 bad
    input.

    For example:

      numaware affinity plan
      numaware affinity plan --least 100000 --json
    """
    if not 0 <= fill <= 100:
        raise InputError("--fill", f"{fill} is outside 0 to 100")
    if least < 0:
        raise InputError("--least", f"{least} is less than 0")
    seen = status_file.read(status)
    rules = msgspec.structs.replace(seen.rules, fill=fill, least=least)
    planned = seen.plan(rules)
    names = _names(seen)
    if as_json:
        write_json(_as_json(planned, names))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _head(seen, lang))
        rows = [(names[answer.uid], _words(answer, lang)) for answer in planned.answers]
        sys.stdout.writelines(table(("POD", "PLAN"), rows))
        across = {
            "total": _rate(planned.total),
            "before": _rate(planned.across_before),
            "after": _rate(planned.across_after),
        }
        sys.stdout.write(label(Message("affinity-across", across), lang) + "\n")
    return int(bool(planned.moves))


@app.command
def verify(
    *,
    status: _From = status_file.FILE,
    root: Annotated[Path, option("Where the node's / is.")] = Path("/"),
    lang: _Language = "en",
    as_json: AsJson = False,
) -> int:
    """Read from the kernel which CPUs and memory nodes every process of every pod may use, and compare.

    Pods that were moved must be where they were put, containers with CPUs or
    memory of their own on those; all others must be off the CPUs that somebody
    has for himself. For each move: what the pod sent to other NUMA nodes before
    it, what it should send after it, and what it does.

    Exit code: 0 all is as it should be, 1 something is not, 2 bad input.

    For example:

      numaware affinity verify
      numaware affinity verify --root /host --json
    """
    seen = status_file.read(status)
    source = Source(FolderTree(str(root), str(root)))
    pods = read_pods(source, _MOST_PODS)
    found = verify_processes(source, pods, seen.intents)
    if as_json:
        write_json(
            {
                "processes": found.processes,
                "pods": len(pods),
                "problems": [_problem(one, seen) for one in found.mismatches],
                "moves": [msgspec.to_builtins(move) for move in seen.moves],
            }
        )
        return int(bool(found.mismatches))
    for one in found.mismatches:
        facts = {**_problem(one, seen), "problem": None}
        sys.stdout.write(label(Message(f"affinity-{one.wrong}", facts), lang) + "\n")
    if not found.mismatches:
        facts = {"processes": found.processes, "pods": len(pods)}
        sys.stdout.write(label(Message("affinity-verified", facts), lang) + "\n")
    sys.stdout.writelines(f"{label(Message('affinity-gain', move.facts), lang)}\n" for move in seen.moves)
    return int(bool(found.mismatches))


def _problem(one: Mismatch, seen: AffinityStatus) -> dict[str, object]:
    facts = {"problem": one.wrong, "pod": _names(seen).get(one.uid, one.uid), "pid": one.pid}
    return {**facts, "allowed": str(one.allowed), **({"wanted": str(one.wanted)} if one.wanted else {})}


def _names(seen: AffinityStatus) -> dict[str, str]:
    return {member.uid: f"{member.namespace}/{member.name}" for member in seen.members}


def _head(seen: AffinityStatus, lang: Lang) -> Iterator[str]:
    facts = {"runtime": seen.runtime} if seen.runtime else {}
    yield f"{seen.node}: {label(Message(f'affinity-mode-{seen.mode}', facts), lang)}"
    age = int(time.time()) - seen.at
    if age > _STALE_SECONDS:
        yield label(Message("affinity-stale", {"seconds": age}), lang)
    if seen.nri is not None:
        yield label(seen.nri.message, lang)
    yield from seen.troubles


def _words(answer: Answer, lang: Lang) -> str:
    facts = {"target": answer.target, "saving": _rate(answer.saving)} if answer.moves else {}
    return label(Message(f"affinity-{answer.code}", facts), lang)


def _rate(bytes_a_second: int) -> str:
    return f"{_size(bytes_a_second)}/s"


def _size(size: int) -> str:
    return rounded(size) if size else "0 B"


def _as_json(planned: Plan, names: dict[str, str]) -> dict[str, object]:
    return {
        "pods": [
            {
                "pod": names[answer.uid],
                "uid": answer.uid,
                "answer": answer.code,
                "numa": answer.target,
                "cpus": str(answer.cpus),
                "savingBytesPerSecond": answer.saving,
                "with": [names[uid] for uid in answer.with_pods],
            }
            for answer in planned.answers
        ],
        "totalBytesPerSecond": planned.total,
        "crossNumaBytesPerSecond": {"now": planned.across_before, "planned": planned.across_after},
    }
