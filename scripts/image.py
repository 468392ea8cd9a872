#!/usr/bin/env python3
"""The container image, made from Debian's packages and the wheels of uv.lock: no engine, no base image, no root needed.

Two layers: Debian (the interpreter and what it links to, without shell or package manager), and numaware with what it
imports. All that is read has a version, a signature or a hash, and all that is written has one order, one time (that of the
commit) and one owner, so that the same commit gives the same digest wherever the same packages are to be had. Written by
hand where tools (umoci, buildah) need mounts or put the hour of the build into their layers; the format is a tar and three
small JSON files.

`make image` leaves in dist/image: the image as an OCI archive, its digest and what is in it (CycloneDX).
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import hashlib
import io
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]
# The release whose interpreter the tests run with as well.
SUITE, PYTHON = "bookworm", "3.11"
PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    f"python{PYTHON}-minimal",
    "zlib1g",
)
# Nobody in a container reads these; licences (usr/share/doc/*/copyright) stay.
AUTHORITIES = "usr/share/ca-certificates/"
LEFT_OUT = (
    "usr/sbin/",
    "usr/share/debconf/",
    "usr/share/man/",
    "usr/share/info/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/bug/",
)
MERGED = ("bin", "lib", "lib64", "sbin")
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
USER = 65532
ARCHITECTURES = {"amd64": "x86_64-manylinux_2_36", "arm64": "aarch64-manylinux_2_36"}


class Entry(NamedTuple):
    """A file, link or folder of a layer."""

    name: str
    mode: int
    content: bytes | None = None
    link: str = ""


class Part(NamedTuple):
    """What somebody else has made that is in the image."""

    kind: str
    name: str
    version: str
    licence: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=CHECKOUT / "dist" / "image", help="the folder to write to"
    )
    parser.add_argument(
        "--name", default="numaware", help="the image's name, with its registry where it has one"
    )
    chosen = parser.parse_args()
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            sys.stderr.write(
                f"make image takes its packages from Debian and needs {program}; elsewhere: podman build -f deploy/Containerfile .\n"
            )
            return 2
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.stderr.write(
            f"make image cannot write to {chosen.out}: {error.strerror}; --out names another folder\n"
        )
        return 2
    with tempfile.TemporaryDirectory() as draft:
        build(Path(draft), chosen.out, chosen.name)
    return 0


def build(draft: Path, out: Path, name: str) -> None:
    version, revision, epoch = our_version(), _git("rev-parse", "HEAD"), commit_time()
    architecture = said("dpkg", "--print-architecture")
    debian, debian_parts = _debian(draft / "debian", SUITE)
    ours, our_parts = _numaware(draft / "python", architecture, epoch)
    layers = [_layer(entries, epoch) for entries in (debian, ours)]
    label = f"{name}:{version}"
    archive = _oci(layers, architecture, epoch, label, {"version": version, "revision": revision})
    parts = sorted({*debian_parts, *our_parts})
    digest = json.loads(dict(archive)["index.json"])["manifests"][0]["digest"]
    written = {
        f"numaware-{version}-{architecture}.oci.tar": as_tar(
            [Entry(path, 0o644, content) for path, content in archive], epoch
        ),
        f"numaware-{version}-{architecture}.cdx.json": _sbom(parts, version, digest, epoch),
        f"numaware-{version}-{architecture}.digest": f"{digest}\n".encode(),
    }
    for file, content in written.items():
        (out / file).write_bytes(content)
    size = sum(len(compressed) for compressed, _ in layers)
    sys.stdout.write(
        f"{label} {digest}\n{size / 1e6:.0f} MB compressed, {len(parts)} parts of others: {out}\n"
    )


def _debian(folder: Path, suite: str) -> tuple[list[Entry], set[Part]]:
    """The files of Debian's packages as they are, and what scanners look for to know which they are."""
    _bytes(CHECKOUT / "scripts" / "debian-packages", suite, folder, *PACKAGES)
    entries = [Entry(name, 0o777, link=f"usr/{name}") for name in MERGED]
    entries += [
        Entry(
            "etc/passwd",
            0o644,
            f"root:x:0:0:root:/:/nologin\nnumaware:x:{USER}:{USER}::/:/nologin\n".encode(),
        ),
        Entry("etc/group", 0o644, f"root:x:0:\nnumaware:x:{USER}:\n".encode()),
        Entry("etc/nsswitch.conf", 0o644, b"hosts: files dns\n"),
        Entry("tmp", 0o1777),
        Entry("usr/sbin", 0o755),
        Entry("usr/lib/ssl/cert.pem", 0o777, link="/etc/ssl/certs/ca-certificates.crt"),
    ]
    parts: set[Part] = set()
    for package in sorted(folder.glob("*.deb")):
        with tarfile.open(fileobj=io.BytesIO(_bytes("dpkg-deb", "--fsys-tarfile", package))) as files:
            entries += _of_package(files)
        control = _bytes("dpkg-deb", "--field", package)
        fields = dict(line.split(": ", 1) for line in control.decode().splitlines() if ": " in line)
        entries.append(Entry(f"var/lib/dpkg/status.d/{fields['Package']}", 0o644, control))
        parts.add(Part("deb", fields["Package"], fields["Version"]))
    # What the package's script would write, had it been installed.
    authorities = [entry.content or b"" for entry in sorted(entries) if entry.name.startswith(AUTHORITIES)]
    entries.append(Entry("etc/ssl/certs/ca-certificates.crt", 0o644, b"".join(authorities)))
    return [entry for entry in entries if not entry.name.startswith(AUTHORITIES)], parts


def _of_package(files: tarfile.TarFile) -> Iterator[Entry]:
    for member in files:
        name = member.name.removeprefix("./").rstrip("/")
        if name.split("/", 1)[0] in MERGED:
            name = f"usr/{name}"
        documentation = (
            name.startswith("usr/share/doc/") and not member.isdir() and not name.endswith("/copyright")
        )
        if not name or name.startswith(LEFT_OUT) or documentation:
            continue
        if member.issym():
            yield Entry(name, 0o777, link=member.linkname)
        elif not member.isdir():
            content = files.extractfile(member)
            yield Entry(name, member.mode & 0o755, content.read() if content else b"")


def _numaware(folder: Path, architecture: str, epoch: int) -> tuple[list[Entry], set[Part]]:
    """The wheels that uv.lock names, this checkout's own, and the commands."""
    uv, site = Path(sysconfig.get_path("scripts")) / "uv", folder / "site"
    locked = folder / "locked.txt"
    folder.mkdir()
    quiet: tuple[str | Path, ...] = ("--quiet", "--directory", CHECKOUT)
    wanted = ("--frozen", "--no-dev", "--no-emit-project", "--extra", "nvidia", "--output-file", locked)
    _bytes(uv, "export", *quiet, *wanted)
    _bytes(uv, "build", *quiet, "--wheel", "--out-dir", folder, epoch=epoch)
    (wheel,) = folder.glob("numaware-*.whl")
    platform = ("--python-version", PYTHON, "--python-platform", ARCHITECTURES[architecture])
    at: tuple[str | Path, ...] = ("--target", site, *platform)
    fixed = ["--quiet", "--only-binary", ":all:", "--link-mode", "copy", "--no-deps"]
    _bytes(uv, "pip", "install", *fixed, *at, "--require-hashes", "--requirements", locked)
    _bytes(uv, "pip", "install", *fixed, *at, wheel)
    shutil.rmtree(site / "bin", ignore_errors=True)
    (site / ".lock").unlink(missing_ok=True)
    parts = {
        _distribution(path) for path in site.glob("*.dist-info") if not path.name.startswith("numaware-")
    }
    for path in site.glob("*.dist-info"):
        # What changes with the machine that installs: which files there are in what order, from where they came.
        for noted in ("RECORD", "direct_url.json", "REQUESTED", "uv_cache.json"):
            (path / noted).unlink(missing_ok=True)
    entries = [*_compiled(site, epoch)]
    # Processes of a comparison import this file again, and are not to begin another one.
    command = (
        f"#!/usr/bin/python{PYTHON}\nimport sys\n\nfrom numaware.__main__ import run\n\n"
        'if __name__ == "__main__":\n    sys.exit(run())\n'
    )
    entries += [
        Entry(f"usr/local/bin/{name}", 0o755, command.encode()) for name in ("numaware", "kubectl-numa")
    ]
    return entries, parts


def _compiled(site: Path, epoch: int) -> Iterator[Entry]:
    """All modules with their byte code, which a file system that nobody may write to could not keep.

    The byte code is not checked against its source again: nobody can change either, and the container starts sooner.
    """
    if sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        raise SystemExit(f"make image compiles for Python {PYTHON} and has to run with it")
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    compileall.compile_dir(
        site,
        quiet=2,
        stripdir=str(site),
        prependdir=f"/{SITE}",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for path in sorted(site.rglob("*")):
        if path.is_file():
            yield Entry(f"{SITE}/{path.relative_to(site)}", 0o644, path.read_bytes())


def _distribution(path: Path) -> Part:
    told = Distribution.at(path).metadata
    licence = str(told.json.get("license_expression", ""))
    return Part("pypi", re.sub("[-_.]+", "-", told["Name"]).lower(), told["Version"], licence)


def _layer(entries: Iterable[Entry], epoch: int) -> tuple[bytes, str]:
    """Compressed, and the digest of what it is uncompressed."""
    tar = as_tar(entries, epoch)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0, filename="") as file:
        file.write(tar)
    return packed.getvalue(), f"sha256:{hashlib.sha256(tar).hexdigest()}"


def as_tar(entries: Iterable[Entry], epoch: int) -> bytes:
    named = {entry.name: entry for entry in entries}
    for name in [*named]:
        for folder in Path(name).parents:
            if str(folder) != ".":
                named.setdefault(str(folder), Entry(str(folder), 0o755))
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(named):
            entry, info = named[name], tarfile.TarInfo(name)
            info.mode, info.mtime = entry.mode, epoch
            if entry.link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            tar.addfile(info, io.BytesIO(entry.content) if entry.content else None)
    return written.getvalue()


def _oci(
    layers: list[tuple[bytes, str]], architecture: str, epoch: int, label: str, facts: dict[str, str]
) -> list[tuple[str, bytes]]:
    """The files of an image layout: blobs by digest, and the index that names the one image in it."""
    created = _time(epoch)
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": f"{USER}:{USER}",
                "Env": [
                    "PATH=/usr/local/bin:/usr/bin",
                    "LANG=C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE=1",
                    "PYTHONUNBUFFERED=1",
                ],
                "Entrypoint": ["numaware"],
                "Cmd": ["--help"],
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": "numaware",
                    "org.opencontainers.image.licenses": "Apache-2.0",
                    **{f"org.opencontainers.image.{fact}": value for fact, value in facts.items()},
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [plain for _, plain in layers]},
            "history": [
                {"created": created, "created_by": made_by} for made_by in (f"Debian {SUITE}", "numaware")
            ],
        }
    )
    blobs = [config, *(packed for packed, _ in layers)]
    kinds = ["config.v1+json", *["layer.v1.tar+gzip"] * len(layers)]
    described = [_described(kind, blob) for kind, blob in zip(kinds, blobs, strict=True)]
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described[0],
            "layers": described[1:],
        }
    )
    repository = label if "/" in label else f"docker.io/library/{label}"
    named = _described("manifest.v1+json", manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "io.containerd.image.name": repository,
            "org.opencontainers.image.ref.name": label.rsplit(":", 1)[1],
        },
    }
    return [
        *((f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob) for blob in (manifest, *blobs)),
        ("index.json", _json({"schemaVersion": 2, "manifests": [named]})),
        ("oci-layout", _json({"imageLayoutVersion": "1.0.0"})),
    ]


def _described(kind: str, blob: bytes) -> dict[str, object]:
    return {
        "mediaType": f"application/vnd.oci.image.{kind}",
        "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}",
        "size": len(blob),
    }


def _sbom(parts: list[Part], version: str, digest: str, epoch: int) -> bytes:
    """What is in the image, as CycloneDX."""
    components = [
        {
            "type": "library",
            "bom-ref": (url := _package_url(part)),
            "name": part.name,
            "version": part.version,
            "purl": url,
            **({"licenses": [{"expression": part.licence}]} if part.licence else {}),
        }
        for part in parts
    ]
    image = {
        "type": "container",
        "bom-ref": f"numaware@{digest}",
        "name": "numaware",
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
    }
    return _json(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"timestamp": _time(epoch), "component": image},
            "components": components,
        }
    )


def _package_url(part: Part) -> str:
    version = part.version.replace("+", "%2B").replace(":", "%3A").replace("~", "~")
    name = part.name.replace("+", "%2B")
    return (
        f"pkg:deb/debian/{name}@{version}?distro={SUITE}"
        if part.kind == "deb"
        else f"pkg:pypi/{name}@{version}"
    )


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def _time(epoch: int) -> str:
    return said("date", "--utc", f"--date=@{epoch}", "+%Y-%m-%dT%H:%M:%SZ")


def our_version() -> str:
    line = next(
        line
        for line in (CHECKOUT / "src/numaware/__init__.py").read_text().splitlines()
        if "__version__" in line
    )
    return line.split('"')[1]


def commit_time() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))


def _git(*words: str) -> str:
    return said("git", "-C", str(CHECKOUT), *words)


def said(*command: str | Path) -> str:
    return _bytes(*command).decode().strip()


def _bytes(*command: str | Path, epoch: int = 0) -> bytes:
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout  # noqa: S603 - our words


if __name__ == "__main__":
    sys.exit(main())
