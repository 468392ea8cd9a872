"""From what a user has (a kubeconfig, or a pod's own account) to a connection.

Reading kubeconfigs, running credential plug-ins, refreshing OIDC tokens and finding the account of a pod are left to
kubernetes_asyncio's loader, imported only when connecting. What it finds becomes a `Connection`: an address, a TLS context,
and the headers for each call, renewed before they run out.

Secrets are in the headers, the TLS context and perhaps the proxy's address; none of these is ever part of a text.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from numaware.errors import InputError
from numaware.kube.loader import loader
from numaware.machine.words import printable
from numaware.workload import yamlfile

# Account tokens are replaced at 80 % of their life of an hour; a look a minute is often enough for every form.
_LOOK_SECONDS = 60.0
_USUAL = "~/.kube/config"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Credentials = Callable[[bool], Awaitable[str]]


class Connection:
    """How to reach one API server.

    `base` is the address that paths are added to, `tls` None for plain HTTP, `server_name` the name to expect in the
    certificate where that is not the one in the address, `proxy` what to go through. `credentials` gives the value of the
    Authorization header, and a new one when called with True.
    """

    def __init__(
        self,
        base: str,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base = base.rstrip("/")
        self.tls = tls
        self.server_name = server_name
        self.proxy = proxy
        self._credentials = credentials
        self._clock = clock
        self._headers: dict[str, str] | None = None if credentials else {}
        self._looked = 0.0
        self._renewing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Connection({self.base!r})"

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        """Who makes a call: looked up again every minute, and with `renew` even if it was believed to be valid.

        When that fails, what there is goes on being used: the server says soon enough if it is not valid any more.
        """
        if self._credentials is None:
            return self._headers or {}
        asked = self._clock()
        if self._headers is not None and not renew and asked - self._looked < _LOOK_SECONDS:
            return self._headers
        async with self._renewing:
            # Calls that wait here while another looks take what it found.
            if self._headers is None or self._looked < asked:
                try:
                    value = await self._credentials(renew)
                    self._headers = {"Authorization": value} if value else {}
                except InputError:
                    if self._headers is None:
                        raise
                self._looked = self._clock()
            return self._headers


async def connect(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """The connection a user means: the kubeconfig named, else $KUBECONFIG, else ~/.kube/config, else the pod's account.

    Nothing is sent to the server yet. Whatever is wrong with what the user has is one `InputError`.
    """
    paths = _kubeconfigs(kubeconfig)
    if paths:
        return await _from_kubeconfig(paths, context)
    if context is not None:
        raise InputError(f"context {printable(context, 100)}", "there is no kubeconfig to look it up in")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return await _from_account()
    raise InputError(
        _USUAL,
        "no such file, and this is not a pod of a cluster",
        hint="name a kubeconfig with --kubeconfig",
    )


def _kubeconfigs(named: str | None) -> list[Path]:
    """The files that there are of those that the user means, which $KUBECONFIG may list several of."""
    text = named or os.environ.get("KUBECONFIG") or ""
    paths = [path for path in text.split(os.pathsep) if path]
    # Not pathlib's: that fails for who has no home, such as a user of a container that only a number names.
    whole = [Path(os.path.expanduser(path)) for path in paths or [_USUAL]]  # noqa: PTH111
    existing = [path for path in whole if path.is_file()]
    if paths and not existing:
        raise InputError(printable(text, 400), "no such file")
    return existing


async def _from_kubeconfig(paths: list[Path], context: str | None) -> Connection:
    source = os.pathsep.join(map(str, paths))
    contexts = _contexts(paths)
    if context is not None and context not in contexts:
        known = ", ".join(printable(name, 60) for name in contexts[:10])
        raise InputError(
            source,
            f"no context {printable(context, 100)!r}",
            hint=f"it has {known}" if known else "it has none",
        )
    try:
        merged = loader().kubeconfig.KubeConfigMerger(source)
        login = loader().kubeconfig.KubeConfigLoader(
            merged.config, active_context=context, config_base_path=None, config_persister=_persister(merged)
        )
        configuration = loader().configuration()
        if login._user is None:  # noqa: SLF001 - the library takes nobody for a user with certificates, and stumbles
            login._user = {}  # noqa: SLF001
    except Exception as error:  # noqa: BLE001 - the library raises whatever a badly shaped file makes it stumble on
        raise InputError(source, f"not a kubeconfig that can be used: {_why(error)}") from None
    connection: Connection | None = None

    async def credentials(renew: bool) -> str:
        # A plug-in that does not say when its answer runs out is asked again only when the server refuses it.
        if renew:
            vars(login).pop("exec_plugin_expiry", None)
        elif connection is not None and _runs_plugin(login) and not hasattr(login, "exec_plugin_expiry"):
            return _token(configuration)
        try:
            await login.load_and_set(configuration)
            if connection is not None:
                _load_certificate(connection.tls, configuration)
        except Exception as error:  # noqa: BLE001 - as above, and what plug-ins and issuers of tokens make it raise
            raise InputError(source, f"cannot log in: {_why(error)}") from None
        return _token(configuration)

    await credentials(False)
    connection = _connection(source, configuration, credentials)
    await connection.headers()
    return connection


async def _from_account(folder: Path = ACCOUNT) -> Connection:
    source = "the pod's service account"
    account = loader().account.InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"))
    configuration = loader().configuration()

    async def credentials(renew: bool) -> str:  # noqa: ARG001 - a file is read again either way
        try:
            account.load_and_set(configuration)
        except Exception as error:  # noqa: BLE001 - the library's own and the system's errors alike
            raise InputError(source, f"cannot log in: {_why(error)}") from None
        return _token(configuration)

    await credentials(False)
    connection = _connection(source, configuration, credentials)
    await connection.headers()
    return connection


def _connection(source: str, configuration: Any, credentials: Credentials) -> Connection:
    base = str(configuration.host)
    address = urlsplit(base)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise InputError(source, "the server's address is not an http or https URL")
    proxy = configuration.proxy or _proxy_of_environment(address.scheme, address.netloc, address.hostname)
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise InputError(source, "the proxy's address is not an http or https URL")
    tls = None
    if address.scheme == "https":
        try:
            tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            _load_certificate(tls, configuration)
        except (OSError, ValueError) as error:
            raise InputError(source, f"the certificates cannot be used: {_why(error)}") from None
        # Authorities that clusters make for themselves lack extensions that newer Pythons ask for.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
    return Connection(
        base, tls=tls, server_name=configuration.tls_server_name, proxy=proxy, credentials=credentials
    )


def _contexts(paths: list[Path]) -> list[str]:
    """The names of all contexts; `InputError` for a file that is not a kubeconfig at all."""
    names: list[str] = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}") from None
        for document in yamlfile.documents(data, str(path))[:1]:
            if not document.mapping:
                raise InputError(str(path), "not a kubeconfig")
            names += [name for entry in document.get("contexts").items if (name := entry.get("name").text)]
    return names


def _persister(merged: Any) -> Callable[[object], None]:
    """Keeps a refreshed OIDC token for the user's next command, as kubectl does, where the file can be written."""

    def persist(_: object) -> None:
        with suppress(OSError):
            merged.save_changes()

    return persist


def _runs_plugin(login: Any) -> bool:
    return "exec" in login._user  # noqa: SLF001 - the library's own way to ask, see its refresh_token


def _token(configuration: Any) -> str:
    # Files end in a line feed, headers must not.
    return str(configuration.api_key.get("BearerToken", "")).strip()


def _load_certificate(tls: ssl.SSLContext | None, configuration: Any) -> None:
    """The client certificate as it is now: connections made from here on use it."""
    if tls is not None and configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)


def _proxy_of_environment(scheme: str, netloc: str, host: str) -> str | None:
    """$HTTPS_PROXY and $NO_PROXY, the latter with ranges of addresses as clusters write them."""
    proxies = getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(netloc) or proxy_bypass(host):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return proxy
    for text in proxies.get("no", "").split(","):
        try:
            if address in ip_network(text.strip(), strict=False):
                return None
        except ValueError:
            continue
    return proxy


def _why(error: Exception) -> str:
    """The library's words, up to where it would show what stands in the file."""
    return printable(str(error).partition("{")[0].strip() or type(error).__name__, 300)
