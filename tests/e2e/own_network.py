"""A network of the tests' own, in which the API server has the address and the port that pods know it by.

Whoever is started from here on by this thread lives in it; the kernel takes it away with the last of them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

BRIDGE = "cluster"
# Where the tests themselves are; nodes and pods are in the same network, addresses of services lie behind it.
GATEWAY = "10.244.0.1"
NETWORK_BITS = 16
SERVICES = "10.96.0.0/16"
API_SERVER = "10.96.0.1"

_NEW_NETWORK = 0x4000_0000
_PLAN = f"""\
link set lo up
link add {BRIDGE} type bridge
address add {GATEWAY}/{NETWORK_BITS} dev {BRIDGE}
address add {API_SERVER}/32 dev {BRIDGE}
link set {BRIDGE} up
"""


@contextmanager
def own_network() -> Iterator[None]:
    """Of this thread, and of the programs and threads that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "a network of one's own needs root")
        subprocess.run(["ip", "-batch", "-"], input=_PLAN, text=True, check=True)
        yield
    finally:
        libc.setns(before, _NEW_NETWORK)
        os.close(before)
