"""What the commands that talk to a cluster have in common: which cluster, and how they end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from numaware.cli.options import option, optional
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.words import printable

if TYPE_CHECKING:
    from numaware.kube.client import Client
    from numaware.kube.pods import LivePod
    from numaware.serve.cluster_cache import ClusterCache
    from numaware.web import Tls


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster, as every command that talks to one is told."""

    kubeconfig: Annotated[
        str | None,
        optional("Which kubeconfig; $KUBECONFIG, ~/.kube/config or the pod's own account if not given."),
    ] = None
    context: Annotated[str | None, optional("Which context of it; the current one if not given.")] = None


USUAL_CLUSTER = ClusterOptions()


@Parameter(name="*")
@dataclass(frozen=True)
class TlsOptions:
    """The certificate of a server, both parts or none."""

    tls_cert: Annotated[Path | None, optional("Serve HTTPS with this certificate (PEM).")] = None
    tls_key: Annotated[Path | None, optional("The key of the certificate (PEM).")] = None

    def for_server(self, clients: Path | None = None) -> Tls | None:
        """What they come to; `clients` is the authority whose certificates clients must have."""
        from numaware.web import Tls  # noqa: PLC0415 - brings the HTTP server along

        if self.tls_cert is None and self.tls_key is None:
            if clients is not None:
                raise InputError("--client-ca", "needs --tls-cert and --tls-key")
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise InputError("--tls-cert", "needs --tls-key, and the other way round")
        return Tls(self.tls_cert, self.tls_key, clients)


NO_TLS = TlsOptions()

LogFormat = Annotated[Literal["json", "text"], option("How log lines look.")]

Language = Annotated[Lang, Parameter(name="--lang", help="The language of the answer: en or zh.")]

T = TypeVar("T")


def on_cluster(cluster: ClusterOptions, work: Callable[[Client, str], Awaitable[T]]) -> T:
    """What `work`, given the way in and the server's release, comes to; `InputError` where none answers, or it refuses to."""
    # All of this is needed only by commands that talk to a cluster.
    from numaware.kube.client import Client  # noqa: PLC0415
    from numaware.kube.config import connect  # noqa: PLC0415
    from numaware.kube.errors import ApiError  # noqa: PLC0415

    async def run() -> T:
        async with Client(await connect(cluster.kubeconfig, cluster.context)) as client:
            release = await client.server_version()
            try:
                return await work(client, release)
            except ApiError as error:
                raise InputError("the cluster", f"cannot be read: {error}") from None

    return asyncio.run(run())


def look_at(cluster: ClusterOptions) -> tuple[ClusterCache, list[str]]:
    """The cluster as it is now, read once, and what of it could not be read."""
    from numaware.schedule.cluster import Cluster  # noqa: PLC0415 - as above
    from numaware.schedule.engine import Engine  # noqa: PLC0415
    from numaware.schedule.storage import Storage  # noqa: PLC0415
    from numaware.serve.cluster_cache import ClusterCache  # noqa: PLC0415
    from numaware.serve.watches import look  # noqa: PLC0415

    cache = ClusterCache(
        Engine(Cluster((), knows_namespaces=False, storage=Storage(known=False))), lambda: 0.0
    )

    async def read(client: Client, release: str) -> list[str]:
        cache.engine.cluster.follow_release(release)
        return await look(client, cache)

    return cache, on_cluster(cluster, read)


def find_pod(cache: ClusterCache, text: str) -> LivePod:
    """The pod of `NAMESPACE/NAME`, or of a name in the namespace `default`."""
    namespace, slash, name = text.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise InputError(text or "''", "is not NAMESPACE/NAME")
    full_name = f"{namespace or 'default'}/{name}"
    for live in cache.pods:
        if live.full_name == full_name:
            return live
    raise InputError(
        printable(full_name, 200),
        "the cluster has no such pod",
        hint="finished pods are not looked at",
    )


def check_nodes(names: Iterable[str], known: Collection[str]) -> None:
    """Refuse names that no node of the cluster has."""
    for name in names:
        if name not in known:
            raise InputError(printable(name, 80), "the cluster has no such node")


def run_until_signal(
    main: Coroutine[Any, Any, T], *, busy: bool = False, again: Callable[[], None] | None = None
) -> T | None:
    """Run a daemon until it ends, or until a signal asks it to: then it puts its things in order and None comes.

    A terminal that goes away asks, too (SIGHUP), unless it was started with `nohup`.

    A second signal is not waited for: the process ends at once, as somebody evidently wants it to; unless there is an `again`,
    which tells why it goes on. One that is `busy` makes hundreds of calls a second, and has an event loop that makes each of
    them cheaper.
    """

    async def guarded() -> T | None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main)
        stopped = False

        def stop(number: signal.Signals) -> None:
            nonlocal stopped
            if stopped and again is not None:
                again()
                return
            stopped = True
            if again is None:
                loop.remove_signal_handler(number)
            task.cancel()

        hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        for number in (signal.SIGINT, signal.SIGTERM, *hung_up):
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
