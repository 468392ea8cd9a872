"""`numaware diagnose`: findings with causes and fixes, from logs, events, configurations and state files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App

from numaware.cli.diagnose_follow import Follower
from numaware.cli.diagnose_input import Place, collect, places
from numaware.cli.options import AsJson, dashed, option, optional
from numaware.cli.output import complain, deliver
from numaware.diagnose.finding import Finding, is_trouble
from numaware.diagnose.render import html, json, text
from numaware.diagnose.render.json import to_builtins
from numaware.diagnose.rules.diagnosis import findings
from numaware.diagnose.rules.unread import is_unread, unread_findings
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.drawing import terminal

# As long as the largest log that is read at all takes on a slow machine.
_SECONDS = 900

app = App(name="diagnose", usage="Usage: numaware diagnose [PATH...|-] [OPTIONS]")


@app.default
def diagnose(
    paths: Annotated[
        list[str] | None,
        dashed("Files and folders with evidence of any kind; - is stdin, as is nothing at all.", "PATH"),
    ] = None,
    /,
    *,
    out: Annotated[Path | None, optional("Write a report to attach to a ticket: one HTML file.")] = None,
    lang: Annotated[Lang, option("The language of the findings: en or zh.")] = "en",
    follow: Annotated[bool, option("Go on with the logs as they grow, until Ctrl-C.")] = False,
    seconds: Annotated[
        int, option("Read for so long at most; what is left then is said to be cut off.")
    ] = _SECONDS,
    as_json: AsJson = False,
) -> int:
    """Find out what happened, why, and what to do, from whatever evidence there is.

    Give it any of these, together where you have several; what each file is
    is found from its content, and all of them are joined into one story:

      the kubelet's log       journalctl -u kubelet, text or JSON, any release
                              from 1.18 on, gzip, bzip2 or xz, any size
      events and pods         kubectl get events|pods -o yaml|json, kubectl
                              describe pod, or their tables
      its configuration       KubeletConfiguration and its wrappers,
                              kubelet.env, flags, systemd drop-ins, ps output
      its state files         cpu_manager_state, memory_manager_state,
                              kubelet_internal_checkpoint
      the machine             numactl -H, lscpu, nvidia-smi topo -m, ...
      a folder                with all of these, such as a must-gather, or
                              an archive of one (tar, zip)

    Each finding has a stable code, the lines that prove it, the cause in
    plain words, what to do about it, and how sure it is. Where the evidence
    is enough, the kubelet's decision is made again by its twin, which
    confirms it or says where it disagrees.

    Exit code: 0 nothing wrong, 1 something was found, 2 bad input, or
    evidence that is cut off or that nothing could be read in.

    For example:

      journalctl -u kubelet | numaware diagnose
      numaware diagnose kubelet.log.gz pod.yaml /var/lib/kubelet/*_state
      numaware diagnose must-gather/ --out report.html
      kubectl get events -A -o json | numaware diagnose - --json
      journalctl -fu kubelet | numaware diagnose --follow - pod.yaml
    """
    if seconds < 1:
        raise InputError("--seconds", f"{seconds} is no time to read anything")
    if not paths and sys.stdin.isatty():
        raise InputError(
            "diagnose", "no evidence is given", hint="name files or folders, or pipe a log into it"
        )
    files, complaints = places(paths or ["-"])
    if follow:
        return _follow(files, complaints, lang, as_json=as_json)
    bundle, unread = collect(files, seconds)
    diagnosis = [*unread_findings(bundle), *findings(bundle)]
    if out is not None:
        deliver(html.render(diagnosis, bundle.files, lang), out)
    if as_json:
        sys.stdout.write(json.render(diagnosis, bundle.files, lang).decode())
    else:
        page = text.page(diagnosis, bundle.files, terminal.reading_width(sys.stdout), lang)
        terminal.write(list(page), sys.stdout)
    for complaint in (*complaints, *unread):
        complain(complaint)
    return 2 if complaints or unread or is_unread(diagnosis) else int(is_trouble(diagnosis))


def _follow(files: Sequence[Place], complaints: Sequence[str], lang: Lang, *, as_json: bool) -> int:
    """Read what stands beside the logs, then the logs, and tell each finding as it comes."""
    for complaint in complaints:
        complain(complaint)
    beside, _ = collect([place for place in files if not _is_log(place)])
    room = terminal.reading_width(sys.stdout)

    def tell(found: Iterable[Finding]) -> None:
        for one in found:
            if as_json:
                sys.stdout.write(msgspec.json.encode(to_builtins(one, lang)).decode() + "\n")
            elif one.severity != "info":
                terminal.write([*text.lines(one, room, lang), ()], sys.stdout)
        sys.stdout.flush()

    followed = [place for place in files if _is_log(place)]
    if not followed:
        raise InputError(
            "--follow", "there is no log to follow", hint="name one, or pipe journalctl -f into it"
        )
    told = Follower(beside, followed, tell).follow()
    return 2 if complaints else int(is_trouble(told))


def _is_log(place: Place) -> bool:
    """Whether a file may grow by lines that tell something: a log, and what is still empty."""
    if place.path is None or not place.size:
        return True
    bundle, _ = collect([place])
    return all(kind in ("kubelet log", "unknown") for _, kind in bundle.files) and not bundle.cuts
