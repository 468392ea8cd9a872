"""`scripts/bare_root.py` leaves nothing behind when it is stopped. Where it may make no namespaces, there is nothing to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "bare_root.py"
NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def _may_make_namespaces() -> bool:
    try:
        return os.geteuid() == 0 and subprocess.run([*NAMESPACE, "true"], check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(
    not _may_make_namespaces(), reason="needs root, and a kernel that lets it make namespaces"
)
@pytest.mark.parametrize(
    ("number", "code", "to_group"), [(signal.SIGINT, 130, True), (signal.SIGTERM, 143, False)]
)
def test_a_signal_ends_what_runs_and_removes_what_was_made(
    tmp_path: Path, number: signal.Signals, code: int, to_group: bool
) -> None:
    """Ctrl-C reaches the whole group, `kill` the program alone; the tool halfway has mounted something, and hears neither."""
    tools, work = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    tool = tools / "mmdebstrap"
    tool.write_text(
        "#!/bin/sh\n"
        'for root; do :; done\nmkdir -p "$root/proc" && mount -t proc proc "$root/proc"\n'
        'trap "" INT TERM\ntouch "$root/halfway"\n(while :; do touch "$root/more"; done) &\nsleep 600\n'
    )
    tool.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, SCRIPT],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(work)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not [*work.glob("*/made/halfway")]:
            assert process.poll() is None
            time.sleep(0.05)
        (os.killpg if to_group else os.kill)(process.pid, number)
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "Traceback" not in output
    assert [*work.iterdir()] == []
    assert str(work) not in Path("/proc/mounts").read_text()
