#!/usr/bin/env python3
"""The chart as plain manifests, one file for each way to use numaware: what `numaware install` applies, made by the real Helm.

Chart and manifests are one source: change deploy/helm and deploy/rbac, then run this. `--check` says what is not as Helm would make
it now. Where Helm's answer depends on who installs (nodes, image), the default is written, and `numaware.kube.install` fills it in.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
CHART = CHECKOUT / "deploy/helm/numaware"
RENDERED = CHECKOUT / "src/numaware/kube/install/rendered"
# The node of kube-scheduler, as numaware.kube.install knows it.
NODE = "node-of-kube-scheduler"
NOTES = "templates/notes.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, name what would change")
    check = parser.parse_args().check
    helm = _said(CHECKOUT / "scripts/go-tools/build", "helm").strip()
    wanted = {RENDERED / name: text for name, text in rendered(helm).items()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in RENDERED.iterdir() if path not in wanted]
    for path in stale:
        sys.stdout.write(
            f"{path.relative_to(CHECKOUT)} {'is not what Helm renders: make manifests' if check else 'written'}\n"
        )
        if check:
            continue
        if path in wanted:
            path.write_text(wanted[path])
        else:
            path.unlink()
    return int(check and bool(stale))


def rendered(helm: str) -> dict[str, str]:
    """Each file by its name: the kinds, and for every way its objects and what to do next."""
    with tempfile.TemporaryDirectory() as folder:
        # A copy without links, of which Helm would tell each time, and with the notes as a template: Helm renders them only for
        # a cluster.
        chart = Path(folder) / "numaware"
        shutil.copytree(CHART, chart)
        notes = (CHART / "templates/NOTES.txt").read_text()
        (chart / NOTES).write_text(
            f'{{{{- define "notes" }}}}{notes}{{{{ end }}}}notes: {{{{ include "notes" . | toJson }}}}\n'
        )
        return _of_chart(helm, chart)


def _of_chart(helm: str, chart: Path) -> dict[str, str]:
    files = {"kinds.yaml": _said(helm, "show", "crds", chart).removeprefix("---\n")}
    for values in sorted(CHART.with_name("values").glob("*.yaml")):
        namespace = "volcano-system" if values.stem == "inside-volcano" else "numaware"
        head = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\n"
        at: tuple[str | Path, ...] = (chart, "--namespace", namespace, "--values", values)
        given = ("--set", f"extender.nodes={{{NODE}}}", "--kube-version", "1.35.0")
        whole = _said(helm, "template", "numaware", *at, *given).removeprefix("---\n").split("\n---\n")
        told = [one for one in whole if f"/{NOTES}\n" in one]
        files[f"{values.stem}.yaml"] = (
            head + "\n---\n".join(one.strip("\n") for one in whole if one not in told) + "\n"
        )
        files[f"{values.stem}.txt"] = yaml.safe_load(told[0])["notes"].strip() + "\n"
    return files


def _said(*command: str | Path) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our words
    if done.returncode:
        raise SystemExit(f"scripts/manifests.py: {' '.join(map(str, command))} failed; its message is above")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
