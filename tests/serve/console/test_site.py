"""The built page: made from the sources that are here, small, and asking nobody else for anything."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from numaware.serve.console.site import STATIC
from support.console_world import client

TOKEN = str(uuid.UUID(int=7))
WEB = Path(__file__).parents[3] / "web"
SOURCES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
)


def source_hash() -> str:
    """As `web/vite.config.ts` works it out when it builds."""
    paths = sorted(
        path.relative_to(WEB).as_posix()
        for name in SOURCES
        for path in ([WEB / name] if (WEB / name).is_file() else (WEB / name).rglob("*"))
        if path.is_file()
    )
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path}\n".encode())
        total.update((WEB / path).read_bytes())
    return total.hexdigest()


def test_the_page_was_built_from_these_sources() -> None:
    built = (STATIC / "source.sha256").read_text(encoding="ascii").strip()
    assert built == source_hash(), "web/ has changed since the page was built: run make web"


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or not (WEB / "node_modules").is_dir():
        pytest.skip("the page's own tools are not installed; make web does")
    subprocess.run(
        [npm, "run", "--silent", "build"],
        cwd=WEB,
        env={**os.environ, "OUT_DIR": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=300,
    )

    def contents(folder: Path) -> dict[str, bytes]:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    assert contents(tmp_path) == contents(STATIC)


def test_the_page_weighs_less_than_half_a_megabyte() -> None:
    total = sum(len(gzip.compress(path.read_bytes(), 9)) for path in STATIC.rglob("*") if path.is_file())
    assert total < 500_000


def test_the_page_has_no_inline_script_and_no_address_of_others() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "style=" not in page
    for path in STATIC.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            found = set(re.findall(r"https?://[\w.-]+", text))
            # Names of vocabularies, the addresses that Svelte's messages point to, and a command that people may copy; none
            # is ever fetched.
            assert found <= {"http://www.w3.org", "https://svelte.dev", "http://127.0.0.1"}, path


@pytest.mark.parametrize(
    "path", ["/", "/overview", "/nodes/gpu-0", "/pods/a/b", "/container_platform/scheduling/NumaOverview"]
)
def test_every_page_is_the_page(path: str) -> None:
    answer = client().get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert '<div id="app">' in answer.text


@pytest.mark.parametrize("path", ["/nowhere", "/nodes/a/b", "/Overview", "//api/v1/wall"])
def test_an_unknown_address_is_the_page_for_who_looks_and_a_problem_for_programs(path: str) -> None:
    looking = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for caller in (client(), client(token=TOKEN)):
        page = caller.get(path, headers=looking)
        assert (page.status_code, '<div id="app">' in page.text) == (404, True)
        assert caller.head(path, headers=looking).status_code == 404
    assert client().get(path).headers["content-type"] == "application/problem+json"
    assert client().post(path, headers=looking).status_code in (404, 405)


@pytest.mark.parametrize("path", ["/api/v1/nowhere", "/api/v1/wall", "/rest/nowhere", "/openapi.json"])
def test_what_programs_ask_for_never_becomes_a_page_that_needs_no_token(path: str) -> None:
    answer = client(token=TOKEN).get(path, headers={"accept": "text/html"})
    assert answer.status_code == 401
    assert '<div id="app">' not in answer.text


def test_a_slash_too_many_leads_to_the_page() -> None:
    answer = client().get("/nodes/", headers={"accept": "text/html"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "http://127.0.0.1:8080/nodes")


def test_files_are_kept_by_browsers_and_not_sent_twice() -> None:
    name = next(path.name for path in (STATIC / "assets").iterdir() if path.suffix == ".js")
    first = client().get(f"/assets/{name}")
    assert "immutable" in first.headers["cache-control"]
    assert first.headers["content-type"].startswith("text/javascript")
    again = client().get(f"/assets/{name}", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path", ["/assets/../api.py", "/..%2f..%2fapi.py", "/assets/none.js", "/source.sha256"]
)
def test_nothing_else_is_handed_out(path: str) -> None:
    assert client().get(path).status_code == 404
