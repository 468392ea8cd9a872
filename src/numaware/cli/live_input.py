"""What the commands that talk to a cluster have in common: which cluster, and how they end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from numaware.cli.options import option, optional
from numaware.diagnose.texts import Lang
from numaware.errors import InputError

if TYPE_CHECKING:
    from numaware.serve.cluster_cache import ClusterCache
    from numaware.web import Tls

Kubeconfig = Annotated[
    str | None,
    optional("Which kubeconfig; $KUBECONFIG, ~/.kube/config or the pod's own account if not given."),
]
Context = Annotated[str | None, optional("Which context of it; the current one if not given.")]

TlsCert = Annotated[Path | None, optional("Serve HTTPS with this certificate (PEM).")]
TlsKey = Annotated[Path | None, optional("The key of the certificate (PEM).")]
LogFormat = Annotated[Literal["json", "text"], option("How log lines look.")]

Language = Annotated[Lang, Parameter(name="--lang", help="The language of the answer: en or zh.")]

T = TypeVar("T")


def look_at(kubeconfig: str | None, context: str | None) -> tuple[ClusterCache, list[str]]:
    """The cluster as it is now, read once, and what of it could not be read."""
    # All of this is needed only by commands that talk to a cluster.
    from numaware.kube.client import Client  # noqa: PLC0415
    from numaware.kube.config import connect  # noqa: PLC0415
    from numaware.kube.errors import ApiError  # noqa: PLC0415
    from numaware.schedule.cluster import Cluster  # noqa: PLC0415
    from numaware.schedule.engine import Engine  # noqa: PLC0415
    from numaware.serve.cluster_cache import ClusterCache  # noqa: PLC0415
    from numaware.serve.watches import look  # noqa: PLC0415

    async def read() -> tuple[ClusterCache, list[str]]:
        cache = ClusterCache(Engine(Cluster((), knows_namespaces=False)), lambda: 0.0)
        async with Client(await connect(kubeconfig, context)) as client:
            await client.server_version()
            try:
                problems = await look(client, cache)
            except ApiError as error:
                raise InputError("the cluster", f"cannot be read: {error}") from None
        return cache, problems

    return asyncio.run(read())


def split_name(text: str) -> tuple[str, str]:
    """`NAMESPACE/NAME`, or a name in the namespace `default`; `pod/NAME` as kubectl prints it is not one of ours."""
    namespace, slash, name = text.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise InputError(text or "''", "is not NAMESPACE/NAME")
    return namespace or "default", name


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


def run_until_signal(main: Coroutine[Any, Any, T], *, busy: bool = False) -> T | None:
    """Run a daemon until it ends, or until SIGINT or SIGTERM asks it to: then it puts its things in order and None comes.

    A second signal is not waited for: the process ends at once, as somebody evidently wants it to. One that is `busy` makes
    hundreds of calls a second, and has an event loop that makes each of them cheaper.
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

    with asyncio.Runner(loop_factory=_fast_loop if busy else None) as runner:
        return runner.run(guarded())


def _fast_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - only a daemon pays for it

    return uvloop.new_event_loop()
