"""A server that answers as a Prometheus does, or in one of the ways in which one can be broken."""

from __future__ import annotations

import http.server
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Manner = Literal[
    "good", "empty", "html", "no-prometheus", "large", "away", "starting", "overloaded", "silent"
]
NUMA_NODES = 2


class FakePrometheus(http.server.ThreadingHTTPServer):
    """`nodes` have series; `down` are exporters that do not answer. All it was asked is in `asked`."""

    daemon_threads = True

    def __init__(self, manner: Manner, nodes: tuple[str, ...], down: tuple[str, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.manner = manner
        self.nodes = nodes
        self.down = down
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def samples(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Series of a query at one moment, told by the metric that it names."""
        if "vector(time())" in query:
            return [({}, time.time())]
        if self.manner == "empty":
            return []
        if "up{" in query:
            targets = [(f"{node}:9201", 1.0) for node in self.nodes] + [(name, 0.0) for name in self.down]
            return [({"job": "numa-exporter", "instance": name}, value) for name, value in targets]
        if "kubelet_topology_manager" in query:
            return [({}, 2.0)]
        if "by (node)" in query:
            return [({"node": node}, 5.0 + 4 * place) for place, node in enumerate(self.nodes)]
        if not any(f'node="{node}"' in query for node in self.nodes):
            return []
        if "numa_pod_" in query:
            return [({"namespace": "default", "pod": "far"}, 25.0)]
        high = 2.5 if "memory_free_bytes" in query else 1500.0 if "_pages_total" in query else 40.0
        high = 12.5 if "numa_node_other_pages" in query else high
        return [({"numa": str(numa)}, high / (1 + numa)) for numa in range(NUMA_NODES)]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FakePrometheus

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        manner = self.server.manner
        if manner == "silent":
            self.server.over.wait(30)
            return
        status, kind, body = 200, "application/json", self._answer()
        if manner == "html":
            kind, body = "text/html", b"<html>"
        elif manner == "no-prometheus":
            body = b'{"hello": "world"}'
        elif manner == "large":
            body = b'"' + b"x" * (9 << 20) + b'"'
        elif manner == "away":
            status = 302
        elif manner == "starting":
            status, kind, body = 503, "text/plain", b"Service Unavailable"
        elif manner == "overloaded":
            status, body = 500, b'{"status":"error","errorType":"internal","error":"too many samples"}'
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("location", "http://169.254.169.254/latest/meta-data")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def _answer(self) -> bytes:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        samples = self.server.samples(asked.get("query", ""))
        result: list[dict[str, Any]]
        if parts.path.endswith("_range"):
            start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
            moments = [start + place * step for place in range(round((end - start) / step) + 1)]
            result = [
                {
                    "metric": labels,
                    "values": [
                        [moment, _written(value * (1 + math.sin(moment / 300) / 8))]
                        for moment in moments[:-1]
                    ]
                    # The last one is plain, so that a test can tell it.
                    + [[moments[-1], _written(value)]],
                }
                for labels, value in samples
            ]
        else:
            result = [
                {"metric": labels, "value": [time.time(), _written(value)]} for labels, value in samples
            ]
        kind = "matrix" if parts.path.endswith("_range") else "vector"
        return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


def _written(value: float) -> str:
    return str(value).removesuffix(".0")


@contextmanager
def fake_prometheus(
    manner: Manner = "good", nodes: tuple[str, ...] = ("gpu-1",), down: tuple[str, ...] = ()
) -> Iterator[FakePrometheus]:
    with FakePrometheus(manner, nodes, down) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()
