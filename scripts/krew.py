#!/usr/bin/env python3
"""`kubectl numa` for krew: the archive that it unpacks, and the manifest that names it. `scripts/krew.py IMAGE.oci.tar`

krew installs programs that need nothing else, so the archive is the root file system of the image with its Python, started by
the loader that lies in it: on the machine only a kernel is needed. Equal images give equal bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import posixpath
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import image
import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
# Who only tries it has no address yet.
NOWHERE = "https://example.org/numaware"
LIBRARIES = {"amd64": "usr/lib/x86_64-linux-gnu", "arm64": "usr/lib/aarch64-linux-gnu"}
LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
# What a container needs, or scanners of one.
LEFT_OUT = ("etc/", "tmp", "var/", "usr/sbin", *image.MERGED)
_MOST_HOPS = 8
_LAUNCHER = """#!/bin/sh
# With the Python beside it, whatever the machine has. krew calls it through a link.
here=$(dirname "$(readlink -f "$0")")
PYTHONHOME="$here/usr" PYTHONDONTWRITEBYTECODE=1
export PYTHONHOME PYTHONDONTWRITEBYTECODE
exec "$here/{libraries}/{loader}" --library-path "$here/{libraries}" --argv0 "$here/usr/bin/python{python}" \\
  "$here/usr/bin/python{python}" "$here/usr/local/bin/kubectl-numa" "$@"
"""
_MANIFEST = CHECKOUT / "deploy/krew/numa.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path, help="what `make image` has made")
    parser.add_argument("--out", type=Path, help="the folder to write to; that of the image if not given")
    parser.add_argument("--url", default=NOWHERE, help="where archive and project are to be found")
    chosen = parser.parse_args()
    if not chosen.image.is_file():
        sys.stderr.write(f"scripts/krew.py: there is no {chosen.image}; `make image` makes one\n")
        return 2
    for path in write(chosen.image, chosen.out or chosen.image.parent, chosen.url):
        sys.stdout.write(f"{path}\n")
    return 0


def write(archive: Path, out: Path, url: str) -> tuple[Path, Path]:
    """The archive and the manifest, by the image's own version and architecture."""
    version, architecture = archive.name.removesuffix(".oci.tar").split("-")[1:]
    packed = _packed(archive, architecture)
    name = f"kubectl-numa-{version}-linux-{architecture}.tar.gz"
    manifest = yaml.safe_load(_MANIFEST.read_text(encoding="utf-8"))
    manifest["spec"] |= {"version": f"v{version}", "homepage": url}
    manifest["spec"]["platforms"] = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
            "uri": f"{url.rstrip('/')}/{name}",
            "sha256": hashlib.sha256(packed).hexdigest(),
            "bin": "kubectl-numa",
        }
    ]
    written = out / name, out / "numa.yaml"
    written[0].write_bytes(packed)
    written[1].write_text(yaml.safe_dump(manifest, sort_keys=False, width=100), encoding="utf-8")
    return written


def _packed(archive: Path, architecture: str) -> bytes:
    launcher = _LAUNCHER.format(
        libraries=LIBRARIES[architecture], loader=LOADERS[architecture], python=image.PYTHON
    )
    licence = (CHECKOUT / "LICENSE").read_bytes()
    entries = [
        *_without_links({entry.name: entry for entry in _files(archive)}),
        image.Entry("kubectl-numa", 0o755, launcher.encode()),
        image.Entry("LICENSE", 0o644, licence),
    ]
    written = io.BytesIO()
    with gzip.GzipFile(fileobj=written, mode="wb", compresslevel=6, mtime=0, filename="") as file:
        file.write(image.as_tar(entries, image.commit_time()))
    return written.getvalue()


def _without_links(entries: dict[str, image.Entry]) -> Iterator[image.Entry]:
    """Files only: krew unpacks nothing else, so what a link leads to stands in its place."""
    for name, entry in entries.items():
        found: image.Entry | None = entry
        for _ in range(_MOST_HOPS):
            if found is None or not found.link:
                break
            found = entries.get(
                posixpath.normpath(posixpath.join("/", posixpath.dirname(found.name), found.link))[1:]
            )
        if found is not None and found.content is not None and not name.startswith(LEFT_OUT):
            yield found._replace(name=name)


def _files(archive: Path) -> Iterator[image.Entry]:
    """Of all layers, in their order."""
    with tarfile.open(archive) as blobs:

        def read(digest: str) -> bytes:
            found = blobs.extractfile(f"blobs/{digest.replace(':', '/')}")
            return found.read() if found else b""

        found = blobs.extractfile("index.json")
        index = json.loads(found.read() if found else b"")
        manifest = json.loads(read(index["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(read(layer["digest"])), mode="r:gz") as files:
                for member in files:
                    if member.isdir():
                        continue
                    content = files.extractfile(member) if member.isfile() else None
                    yield image.Entry(
                        member.name, member.mode, content.read() if content else None, member.linkname
                    )


if __name__ == "__main__":
    sys.exit(main())
