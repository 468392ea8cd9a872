"""Debian's Prometheus with the configuration and the rules that are shipped for it."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from e2e.control_plane import free_port
from e2e.program import Program

DEPLOY = Path(__file__).parents[2] / "deploy/agent"
TOKEN = "a-token-of-the-tests"  # noqa: S105


class Prometheus:
    """Debian's Prometheus that scrapes agents at these addresses; `address` is where it answers."""

    def __init__(self, folder: Path, *targets: str, address: str = "127.0.0.1") -> None:
        self._answers = f"{address}:{free_port()}"
        config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
        (job,) = config["scrape_configs"]
        # As shipped, but for where the agents are and how often they are asked.
        del job["dns_sd_configs"]
        job |= {
            "static_configs": [{"targets": [*targets]}],
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "authorization": {"credentials": TOKEN},
        }
        config["global"] = {"evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / "alerts.yaml")]
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        self.program = Program(
            "prometheus",
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._answers}",
            ],
            folder / "prometheus.log",
        )

    @property
    def url(self) -> str:
        return f"http://{self._answers}"

    def query(self, text: str) -> list[dict[str, Any]]:
        return self.ask(f"query?{urllib.parse.urlencode({'query': text})}")

    def ask(self, question: str) -> list[dict[str, Any]]:
        """A question as it stands in an address."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{question}", timeout=10) as answer:  # noqa: S310 - our own
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def value(self, text: str) -> float:
        """The one value that a query comes to."""
        (found,) = self.query(text)
        return float(found["value"][1])
