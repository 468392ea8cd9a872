"""`numaware console` on the control plane, and questions to it."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from e2e.control_plane import ControlPlane, free_port
from e2e.program import Program


class Answer(NamedTuple):
    """What came back: the status on the wire, and the body."""

    status: int
    body: Any


class ConsoleProgram(Program):
    """The console with the rights that are shipped for it; `url` where it reaches the API server through a proxy."""

    def __init__(self, plane: ControlPlane, url: str | None = None, more: Sequence[str] = ()) -> None:
        self.port = free_port()
        super().__init__(
            "numaware-console",
            [
                sys.executable,
                "-m",
                "numaware",
                "console",
                "--kubeconfig",
                plane.kubeconfig("numaware-console", url),
                "--port",
                str(self.port),
                "--no-browser",
                *more,
            ],
            plane.folder / "numaware-console.log",
        )
        plane.programs[self.name] = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Any call; a switch that is moved is answered when that is done."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            response = connection.getresponse()
            return Answer(response.status, json.load(response))
        finally:
            connection.close()
