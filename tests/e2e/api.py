"""The API server as a test sees it: plain requests, one after another, on the wires of the standard library.

On purpose not the product's own client: what it believes to have written is looked at with other eyes.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_PAGE = 1000
# More in flight only wait in line behind each other on a machine of two cores.
_AT_ONCE = 8


class ApiError(AssertionError):
    """The API server said no; a test that does not expect that fails with its words."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"{status}: {message}")


class Api:
    """Requests in the name of one user, from any thread."""

    def __init__(self, url: str, ca: Path, token: str) -> None:
        self.url = url
        self._host = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._token = token
        # Connections that nobody uses right now; taking from and adding to the end of a list is safe in any thread.
        self._idle: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def request(
        self, method: str, path: str, body: object = None, kind: str = "application/json", **query: str
    ) -> Object:
        """The answer's object; `ApiError` for any status from 400 on."""
        status, data = self._exchange(
            method,
            f"{path}?{urlencode(query)}" if query else path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "Content-Type": kind},
        )
        if status >= 400:
            try:
                message = str(json.loads(data)["message"])
            except (ValueError, LookupError, TypeError):
                message = data.decode(errors="replace")[:500]
            raise ApiError(status, f"{method} {path}: {message}")
        try:
            found: Object = json.loads(data)
        except ValueError:
            return {"text": data.decode(errors="replace")}
        return found

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", path, **query)

    def list_all(self, path: str, **query: str) -> list[Object]:
        """All objects of a collection, page by page."""
        found: list[Object] = []
        query = {"limit": str(_PAGE), **query}
        while True:
            page = self.request("GET", path, **query)
            found += page["items"]
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return found

    def create(self, path: str, body: object) -> Object:
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, kind: str = MERGE, **query: str) -> Object:
        return self.request("PATCH", path, body, kind, **query)

    def apply(self, path: str, body: object, manager: str = "e2e") -> Object:
        return self.request("PATCH", path, body, APPLY, fieldManager=manager, force="true")

    def delete(self, path: str, body: object = None, **query: str) -> Object:
        return self.request("DELETE", path, body, **query)

    def status_of(self, method: str, path: str, body: object = None) -> int:
        """Only how the server answers: 403 where the user may not."""
        try:
            self.request(method, path, body)
        except ApiError as error:
            return error.status
        return 200

    def create_all(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> list[Object]:
        """Many objects of one collection, several at a time, in their order as far as that goes."""
        return in_parallel(lambda body: self.create(path, body), bodies)

    def stream(self, target: str) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        """An answer to be read piece by piece; whoever asked closes the connection."""
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=60)
        connection.request("GET", target, headers={"Authorization": f"Bearer {self._token}"})
        return connection, connection.getresponse()

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        while self._idle:
            connection = self._idle.pop()
            if _is_over(connection):
                connection.close()
                continue
            try:
                return self._send(connection, method, target, body, headers)
            except (OSError, http.client.HTTPException):
                # One kept open may have died with the server meanwhile; only reading twice is harmless.
                if method != "GET":
                    raise
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=60)
        return self._send(connection, method, target, body, headers)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            data = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response.status, data


def _is_over(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has ended it while nobody looked: it says nothing unasked but goodbye."""
    if connection.sock is None:
        return True
    looked = select.poll()
    looked.register(connection.sock, select.POLLIN)
    return bool(looked.poll(0))


def in_parallel(
    work: Callable[[Mapping[str, Any]], Object], items: Iterable[Mapping[str, Any]]
) -> list[Object]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))
