#!/usr/bin/env python3
"""A release, made and checked: what it consists of lies in dist/release afterwards, signed, and nothing has been published.

Each line says what holds or does not; all are tried, so that one run tells everything there is to mend. Without --key a key is
made for this run, which shows that signing works and is worth nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import image
import krew
import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
CHART = CHECKOUT / "deploy/helm/numaware"
# Nothing is written into a public log: who verifies has the key, and these files.
_OFFLINE = ("--use-signing-config=false", "--tlog-upload=false", "--yes")
_BELIEVED = ("--insecure-ignore-tlog=true",)


class Release(NamedTuple):
    version: str
    out: Path
    key: Path
    public: Path
    url: str


class NotMet(Exception):  # noqa: N818 - what a release lacks is no error of the program
    """What does not hold, in a sentence."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--key", type=Path, help="cosign's private key; its password in COSIGN_PASSWORD")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "dist/release", help="the folder to write to")
    parser.add_argument("--url", default=krew.NOWHERE, help="where the release will be found, for krew")
    chosen = parser.parse_args()
    if chosen.key and not chosen.key.is_file():
        sys.stderr.write(
            f"make release-check: there is no key {chosen.key}; `cosign generate-key-pair` makes one\n"
        )
        return 2
    shutil.rmtree(chosen.out, ignore_errors=True)
    try:
        chosen.out.mkdir(parents=True)
    except OSError as error:
        sys.stderr.write(f"make release-check cannot write to {chosen.out}: {error.strerror}\n")
        return 2
    with tempfile.TemporaryDirectory() as draft:
        key = chosen.key or _made_key(Path(draft))
        release = Release(image.our_version(), chosen.out, key, key.with_suffix(".pub"), chosen.url)
        held = [_holds(what, check, release) for what, check in CHECKS.items()]
    return 0 if all(held) else 1


def _holds(what: str, check: Callable[[Release], str], release: Release) -> bool:
    try:
        told = check(release)
    except (NotMet, subprocess.CalledProcessError) as error:
        sys.stdout.write(f"✗ {what}: {error}\n")
        return False
    sys.stdout.write(f"✓ {what}{f': {told}' if told else ''}\n")
    sys.stdout.flush()
    return True


def _one_version(release: Release) -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    said = {"chart": chart["version"], "appVersion": chart["appVersion"]}
    if wrong := {name: version for name, version in said.items() if version != release.version}:
        raise NotMet(f"numaware is {release.version}, but {wrong}")
    return release.version


def _changelog(release: Release) -> str:
    if not re.search(
        rf"^## \[{re.escape(release.version)}\]", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        raise NotMet(f"CHANGELOG.md has no section [{release.version}]; rename *Unreleased*")
    return ""


def _nothing_uncommitted(release: Release) -> str:  # noqa: ARG001 - one shape for all
    if changed := image.said("git", "-C", str(CHECKOUT), "status", "--porcelain"):
        raise NotMet(f"{len(changed.splitlines())} files are not as committed")
    return image.said("git", "-C", str(CHECKOUT), "rev-parse", "--short", "HEAD")


def _image_twice(release: Release) -> str:
    digests = set()
    for folder in (release.out, release.out / "again"):
        _run(sys.executable, CHECKOUT / "scripts/image.py", "--out", folder)
        (digest,) = folder.glob("*.digest")
        digests.add(digest.read_text().strip())
    shutil.rmtree(release.out / "again")
    if len(digests) > 1:
        raise NotMet(f"two builds, two digests: {', '.join(sorted(digests))}")
    return digests.pop()


def _contents(release: Release) -> str:
    (bom,) = release.out.glob("*.cdx.json")
    listed = {one["purl"] for one in json.loads(bom.read_text())["components"]}
    wanted = image.said(
        _uv(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes"
    )
    locked = re.findall(r"^([\w.-]+)==([\w.]+)", wanted, re.MULTILINE)
    missing = [f"{name} {version}" for name, version in locked if f"pkg:pypi/{name}@{version}" not in listed]
    if missing:
        raise NotMet(f"{bom.name} does not name {', '.join(missing)}")
    return f"{len(listed)} parts"


def _packages(release: Release) -> str:
    _run(_uv(), "build", "--quiet", "--out-dir", release.out)
    (release.out / ".gitignore").unlink(missing_ok=True)
    return ", ".join(
        path.name for path in sorted(release.out.glob("numaware-*.*")) if path.suffix in {".whl", ".gz"}
    )


def _chart(release: Release) -> str:
    helm = _tool("helm")
    _run(helm, "lint", "--strict", CHART)
    for values in sorted(CHART.with_name("values").glob("*.yaml")):
        at = ("--namespace", "volcano-system", "--kube-version", "1.35.0")
        # Which nodes kube-scheduler runs on only who installs it knows.
        nodes = ("--set", "extender.nodes={control-plane-1}")
        _run(helm, "template", "numaware", CHART, *at, "--values", values, *nodes)
    _run(helm, "package", CHART, "--destination", release.out)
    return f"numaware-{release.version}.tgz"


def _for_krew(release: Release) -> str:
    """The archive runs as krew would leave it, on a machine without Python: nothing but a shell is on its path."""
    (archive,) = release.out.glob("*.oci.tar")
    packed, _ = krew.write(archive, release.out, release.url)
    with tempfile.TemporaryDirectory() as store:
        with tarfile.open(packed) as files:
            files.extractall(store, filter="data")
        program = f"{store}/kubectl-numa"
        done = _done("env", "--ignore-environment", "PATH=/usr/bin:/bin", program, "--version")
    if done.stdout.strip() != release.version:
        raise NotMet(f"{packed.name} does not run: {done.stderr.strip()}")
    return packed.name


def _guide(release: Release) -> str:  # noqa: ARG001 - one shape for all
    with tempfile.TemporaryDirectory() as site:
        _run(Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--quiet", "--site-dir", site)
    return ""


def _signed(release: Release) -> str:
    """The sums of all files, and where the image came from (in-toto, SLSA), each with a bundle beside it."""
    cosign = _tool("cosign")
    sums = release.out / "SHA256SUMS"
    sums.write_text("".join(f"{_sum(path)}  {path.name}\n" for path in _files(release)))
    (archive,) = release.out.glob("*.oci.tar")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as predicate:
        json.dump(_provenance(), predicate)
        predicate.flush()
        key, bundle = ("--key", release.key), f"{archive}.provenance.sigstore.json"
        told = ("--predicate", predicate.name, "--type", "slsaprovenance1", "--bundle", bundle)
        _run(cosign, "attest-blob", *key, *told, *_OFFLINE, archive)
        _run(cosign, "sign-blob", *key, "--bundle", f"{sums}.sigstore.json", *_OFFLINE, sums)
    for path in release.out.glob("*.sigstore.json"):
        path.chmod(0o644)
    public = ("--key", release.public, *_BELIEVED)
    _run(cosign, "verify-blob", *public, "--bundle", f"{sums}.sigstore.json", sums)
    _run(cosign, "verify-blob-attestation", *public, "--type", "slsaprovenance1", "--bundle", bundle, archive)
    with tempfile.NamedTemporaryFile() as other:
        other.write(b"not what was signed")
        other.flush()
        done = _done(cosign, "verify-blob", *public, "--bundle", f"{sums}.sigstore.json", other.name)
    if done.returncode == 0:
        raise NotMet("another file passes for the one that was signed")
    return f"{sums.name}, {Path(bundle).name}"


def _provenance() -> dict[str, object]:
    commit = image.said("git", "-C", str(CHECKOUT), "rev-parse", "HEAD")
    return {
        "buildDefinition": {
            "buildType": "https://numaware.io/make-image/v1",
            "externalParameters": {"command": "make image"},
            "internalParameters": {},
            "resolvedDependencies": [{"uri": "git+numaware", "digest": {"gitCommit": commit}}],
        },
        "runDetails": {"builder": {"id": "https://numaware.io/make-image/v1"}, "metadata": {}},
    }


CHECKS: dict[str, Callable[[Release], str]] = {
    "one version everywhere": _one_version,
    "the changelog tells of it": _changelog,
    "all is committed": _nothing_uncommitted,
    "two builds of the image are one": _image_twice,
    "all that is in the image is listed": _contents,
    "wheel and source": _packages,
    "kubectl numa for krew": _for_krew,
    "the chart": _chart,
    "the guide": _guide,
    "signed, and the signatures hold": _signed,
}


def _files(release: Release) -> Iterator[Path]:
    return (
        path
        for path in sorted(release.out.iterdir())
        if path.name != "SHA256SUMS" and path.suffix != ".digest"
    )


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _made_key(folder: Path) -> Path:
    os.environ["COSIGN_PASSWORD"] = ""
    _run(_tool("cosign"), "generate-key-pair", "--output-key-prefix", folder / "cosign")
    return folder / "cosign.key"


def _tool(name: str) -> str:
    return image.said(CHECKOUT / "scripts/go-tools/build", name)


def _uv() -> Path:
    return Path(sys.executable).with_name("uv")


def _done(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)  # noqa: S603 - our words


def _run(*command: str | Path) -> None:
    done = _done(*command)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotMet(f"{Path(command[0]).name} {command[1]}: {lines[-1] if lines else 'failed'}")


if __name__ == "__main__":
    sys.exit(main())
