"""What the commands that talk to a cluster have in common: which cluster, and how they end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from numaware.errors import InputError

if TYPE_CHECKING:
    from numaware.web import Tls

Kubeconfig = Annotated[
    str | None,
    Parameter(
        show_default=False,
        help="Which kubeconfig; $KUBECONFIG, ~/.kube/config or the pod's own account if not given.",
    ),
]
Context = Annotated[
    str | None, Parameter(show_default=False, help="Which context of it; the current one if not given.")
]

TlsCert = Annotated[
    Path | None, Parameter(show_default=False, help="Serve HTTPS with this certificate (PEM).")
]
TlsKey = Annotated[Path | None, Parameter(show_default=False, help="The key of the certificate (PEM).")]
LogFormat = Annotated[Literal["json", "text"], Parameter(help="How log lines look.")]

T = TypeVar("T")


def tls_of(certificate: Path | None, key: Path | None, clients: Path | None = None) -> Tls | None:
    """What the TLS options come to; both or none."""
    from numaware.web import Tls  # noqa: PLC0415 - brings the HTTP server along

    if certificate is None and key is None:
        if clients is not None:
            raise InputError("--client-ca", "needs --tls-cert and --tls-key")
        return None
    if certificate is None or key is None:
        raise InputError("--tls-cert", "needs --tls-key, and the other way round")
    return Tls(certificate, key, clients)


def run_until_signal(main: Coroutine[Any, Any, T]) -> T | None:
    """Run a daemon until it ends, or until SIGINT or SIGTERM asks it to: then it puts its things in order and None comes.

    A second signal is not waited for: the process ends at once, as somebody evidently wants it to.
    """

    async def guarded() -> T | None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main)
        stopped = False

        def stop(number: signal.Signals) -> None:
            nonlocal stopped
            stopped = True
            loop.remove_signal_handler(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            return await task
        except asyncio.CancelledError:
            if stopped:
                return None
            raise

    return asyncio.run(guarded())
