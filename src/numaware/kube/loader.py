"""kubernetes_asyncio's loader of kubeconfigs and accounts, without what else that library brings.

Importing any part of it imports a class for every kind of object Kubernetes has: three seconds, for a command that a
person waits for. The loader itself needs none of them, so it is imported with hollow packages around it, which are taken
away again: whoever imports the library afterwards gets all of it.
"""

from __future__ import annotations

import logging
import ssl
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import aiohttp

_LIBRARY = "kubernetes_asyncio"
_PACKAGES = (_LIBRARY, f"{_LIBRARY}.client")


class Loader(NamedTuple):
    """The parts of the library that are used here; it has no types worth the name."""

    kubeconfig: Any
    account: Any
    configuration: Any


@cache
def loader() -> Loader:
    """The loader, imported once."""
    # It logs what it also raises, among it what a credential plug-in printed.
    logging.getLogger(_LIBRARY).addHandler(logging.NullHandler())
    logging.getLogger(_LIBRARY).propagate = False
    before = {name for name in sys.modules if name.partition(".")[0] == _LIBRARY}
    if before:
        return _imported()
    try:
        for name in _PACKAGES:
            sys.modules[name] = _hollow(name)
        client: Any = sys.modules[f"{_LIBRARY}.client"]
        client.ApiClient = object
        client.Configuration = import_module(f"{_LIBRARY}.client.configuration").Configuration
        return _imported()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _LIBRARY]:
            del sys.modules[name]


def _imported() -> Loader:
    kubeconfig: Any = import_module(f"{_LIBRARY}.config.kube_config")
    kubeconfig.OpenIDRequestor = _verifying(kubeconfig.OpenIDRequestor)
    return Loader(
        kubeconfig,
        import_module(f"{_LIBRARY}.config.incluster_config"),
        import_module(f"{_LIBRARY}.client.configuration").Configuration,
    )


def _verifying(requestor: Any) -> Any:
    """The part that refreshes OIDC tokens, made to check whom it sends a secret to: by itself it does not."""

    def connector(self: Any) -> aiohttp.TCPConnector:
        authorities = self._ssl_ca_cert
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=authorities))

    return type("VerifyingRequestor", (requestor,), {"_get_connector": connector})


def _hollow(name: str) -> ModuleType:
    """A package whose modules can be imported, but which imports nothing itself."""
    spec = find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No package named {name!r}", name=name)
    package = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    return package
