#!/usr/bin/env python3
"""`make up` and `make test` on a machine that has Python and nothing else: a bare Debian, made and thrown away.

As root (chroot and mounts ask for it); what a root needs to reach its package indexes (proxies, certificates, settings
of pip and uv) is taken over from this machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SUITE = "bookworm"
PACKAGES = "python3,python3-venv,make,git,ca-certificates"
CHECKOUT = Path(__file__).resolve().parents[1]
HOMES = {"root": "/root", "someone": "/srv/someone"}
# How a machine reaches its package indexes.
SETTINGS = re.compile(
    r"PIP_.*|UV_.*(CERT|INDEX|LINKS|TLS).*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy",
    re.IGNORECASE,
)
FILES = ("etc/hosts", "etc/resolv.conf", "etc/pip.conf", "etc/uv", "etc/ssl/certs/ca-certificates.crt")
# A namespace for mounts and processes, and in it a first process with which both end; no signal from within ends that one.
NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
INSIDE = r"""
root=$1 user=$2 && shift 2
mount -t proc proc "$root/proc"
mount --bind -o ro /sys "$root/sys"
mount -t tmpfs tmpfs "$root/dev"
for name in full null random tty urandom zero; do
  : > "$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
for path in $GIVEN; do
  mkdir -p "$root$path" && mount --bind -o ro "$path" "$root$path"
done
chroot --userspec="$user" "$root" "$@"
exit $?
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often, each time in a root of its own")
    parser.add_argument("--user", choices=[*HOMES], action="append", help="as whom; both if not given")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("make bare needs root: it makes a file system and changes into it\n")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    results: list[str] = []
    with tempfile.TemporaryDirectory(prefix="numaware-bare-") as folder:
        made = Path(folder, "made")
        say(f"a bare Debian {SUITE}")
        make_root(made)
        for number in range(1, chosen.rounds + 1):
            for user in chosen.user or HOMES:
                root = Path(folder, "root")
                run("cp", "--archive", "--reflink=auto", made, root)
                bare = Bare(root, user)
                results += [f"{user}, round {number}: {line}" for line in (up(bare), test(bare))]
                shutil.rmtree(root)
    say(*results)
    return int(any("RED" in line for line in results))


class Stopped(Exception):  # noqa: N818 - it happened, and is nobody's error
    """Somebody has pressed Ctrl-C, or asked for the end."""


def stop(number: int, _: object) -> None:
    """Leave by way of everything that puts something in order, which another signal does not disturb."""
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number)


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"bare: {line}\n" for line in lines))
    sys.stdout.flush()


def run(*command: str | Path) -> None:
    """One step, out of reach of the terminal's signals: a tool that dies halfway must leave no mount in the root."""
    process = subprocess.Popen((*NAMESPACE, "--mount-proc", *command), start_new_session=True)  # noqa: S603 - our own words
    try:
        process.wait()
    finally:
        end(process)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def make_root(root: Path) -> None:
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, root)
    for name in FILES:
        here, there = Path("/", name), root / name
        if here.is_dir():
            shutil.copytree(here, there, dirs_exist_ok=True)
        elif here.exists():
            shutil.copyfile(here, there)
    run("chroot", root, "useradd", "--create-home", "--home-dir", HOMES["someone"], "someone")


class Bare:
    """A fresh clone in a bare root, and one of its users."""

    def __init__(self, root: Path, user: str) -> None:
        self.root = root
        self.user = user
        self.clone = f"{HOMES[user]}/numaware"
        run("git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, f"{root}{self.clone}")
        run("chroot", root, "chown", "--recursive", f"{user}:{user}", self.clone)

    def make(self, target: str) -> subprocess.Popen[str]:
        """In the clone, as the leader of its own process group: a signal reaches all of it as from a terminal."""
        settings = {name: text for name, text in os.environ.items() if SETTINGS.fullmatch(name)}
        given = sorted(text for text in settings.values() if text.startswith("/") and Path(text).is_dir())
        known = {
            **settings,
            "HOME": HOMES[self.user],
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "USER": self.user,
        }
        command = (
            *NAMESPACE,
            *("sh", "-ec", INSIDE, "sh", str(self.root), self.user),
            *("env", "-i", *(f"{name}={text}" for name, text in known.items())),
            *("make", "--no-print-directory", "--directory", self.clone, target),
        )
        return subprocess.Popen(  # noqa: S603 - our own words
            command,
            env={**os.environ, "GIVEN": " ".join(given)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def up(bare: Bare) -> str:
    """Whether the console answers, and ends when it is told to."""
    say(f"make up as {bare.user}")
    began = time.monotonic()
    process = bare.make("up")
    said: list[str] = []
    try:
        address = None
        for line in process.stdout or ():
            sys.stdout.write(line)
            said.append(line)
            if address := re.search(r"http://\S+", line):
                break
        if address is None:
            return f"make up is RED: it gave no address; exit code {process.wait()}"
        answers = [asked(address[0].rstrip("/") + path) for path in ("/healthz", "/")]
        seconds = time.monotonic() - began
        os.killpg(process.pid, signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
    finally:
        end(process)
    # Make itself ends with 130 after Ctrl-C, unless what it ran was quicker.
    good = answers == [200, 200] and process.returncode in (0, 130) and not rest
    return (
        f"make up is {'green' if good else 'RED'}: answered {answers} after {seconds:.0f} s, "
        f"ended with {process.returncode}{f' and {rest!r}' if rest else ''}"
    )


def asked(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - the console's own address
            return int(answer.status)
    except OSError:
        return 0


def test(bare: Bare) -> str:
    """Whether the tests are green, and how many of them ran."""
    say(f"make test as {bare.user}")
    began = time.monotonic()
    process = bare.make("test")
    counts = ""
    try:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if summary := re.search(r"=+ (.*\d+ passed.*) in .* =+", line):
                counts = summary[1]
        process.wait()
    finally:
        end(process)
    good = process.returncode == 0
    return (
        f"make test is {'green' if good else 'RED'} after {time.monotonic() - began:.0f} s: "
        f"{counts or f'exit code {process.returncode}'}"
    )


def end(process: subprocess.Popen[str]) -> None:
    """Have nothing of it left, mounts included: `unshare` outlives the first process, and that one all others."""
    if process.poll() is not None:
        return
    first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    os.kill(int(first[0]) if first else process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stopped as stopped:
        sys.exit(128 + stopped.args[0])
