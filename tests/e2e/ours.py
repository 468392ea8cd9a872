"""Our own programs on the control plane, as users start them: a process of its own, a kubeconfig, the shipped RBAC."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import urllib.request
import uuid
from typing import Any

import yaml

from e2e.control_plane import ControlPlane, free_port
from e2e.program import Program, eventually

TOKEN = uuid.uuid4().hex
_SAMPLE = re.compile(r"^([a-zA-Z_:][^\s{]*(?:\{.*\})?)\s+(\S+)$", re.MULTILINE)


class Daemon(Program):
    """`numaware scheduler`, `numaware extender` or any other verb that stays up and tells its health over HTTP."""

    def __init__(
        self,
        plane: ControlPlane,
        verb: str,
        *flags: str,
        name: str = "",
        user: str = "",
        url: str | None = None,
    ) -> None:
        """`url` where it is to reach the API server through a proxy; `name` for one of several."""
        name = name or f"numaware-{verb}"
        self.address = f"127.0.0.1:{free_port()}"
        # Whoever binds for others asks them for it.
        self.token = plane.folder / "extender-token"
        if verb == "extender":
            self.token.write_text(TOKEN, encoding="ascii")
            flags = ("--token-file", str(self.token), *flags)
        kubeconfig = plane.kubeconfig(user or f"numaware-{verb}", url)
        super().__init__(
            name,
            [
                sys.executable,
                "-m",
                "numaware",
                verb,
                "--kubeconfig",
                kubeconfig,
                "--listen",
                self.address,
                *flags,
            ],
            plane.folder / f"{name}.log",
        )
        # Its log is shown when a test fails, and it ends with the plane if nobody ends it before.
        plane.programs[name] = self

    def ask(self, path: str) -> str:
        """What it answers on its own port; an error for any status but success."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: object) -> Any:
        """What it answers to a question of another scheduler."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", path, json.dumps(body), headers)
            return json.load(connection.getresponse())
        finally:
            connection.close()

    def wait_ready(self, seconds: float = 60) -> None:
        eventually(lambda: self.ask("/readyz") is not None, f"{self.name} is ready", seconds, self)

    def metrics(self) -> dict[str, float]:
        """What it measures of itself, by name with labels as they stand."""
        return {name: float(value) for name, value in _SAMPLE.findall(self.ask("/metrics"))}


def numaware(plane: ControlPlane, *arguments: str, user: str, status: int = 0) -> str:
    """What a command prints that answers and ends, as this user; it is to end with this exit status."""
    config = str(plane.kubeconfig(user))
    command = [sys.executable, "-m", "numaware", *arguments, "--kubeconfig", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{' '.join(arguments)}: {done.returncode} {done.stdout}{done.stderr}"
    return done.stdout


def extender_config(extender: Daemon, *flags: str) -> dict[str, Any]:
    """What kube-scheduler needs to ask this extender, as our own command prints it."""
    found: dict[str, Any] = yaml.safe_load(printed_config(extender, *flags))
    return found


def printed_config(extender: Daemon, *flags: str) -> str:
    """The same, as it stands."""
    command = (sys.executable, "-m", "numaware", "extender", "config", "--url", f"http://{extender.address}")
    told = (*command, "--token-file", str(extender.token), *flags)
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    return done.stdout
