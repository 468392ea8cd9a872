"""The console against a hostile world, in a real browser: other sites, hostile names, and tokens that must not stay."""

from __future__ import annotations

import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from numaware.kube.reviews import Caller
from numaware.serve.authentication import ClusterAuthentication, TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
from numaware.serve.console.lab.world import HOUR, LabWorld, lab_cluster
from numaware.simulate import pod_churn
from numaware.twin.topology.hints import Hint
from support.console_server import RunningConsole, running
from support.console_world import console
from support.kubelet_logs import ERAS, Story, written

FEW = 4
# Each would run if it ever became markup, in an attribute or in a script.
HOSTILE = (
    "<img src=x onerror=window.hit=1>",
    "\"'><svg onload=window.hit=1>",
    "<script>window.hit=1<\N{FRACTION SLASH}script>",
    "javascript:window.hit=1",
    "{window.hit=1}${window.hit=1}{@html 1}",
)


def few() -> Console:
    return console(nodes=FEW)


@contextmanager
def window(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
    yield context
    context.close()


# Other sites


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of somebody else, which may come with any script."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Another origin, even another site: browsers tell names from addresses."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


# All that one page can try against another, each by a name, with what came of it.
ATTACKS = """async (url) => {
  const body = JSON.stringify({ status: "close", shape: { cpu: "1" } });
  const tried = {};
  const attempt = async (name, path, init) => {
    try {
      const answer = await fetch(url + path, init);
      tried[name] = answer.type === "opaque" ? "opaque" : "read " + (await answer.text()).slice(0, 40);
    } catch { tried[name] = "blocked"; }
  };
  const element = (name, tag, set) => new Promise((done) => {
    const made = document.createElement(tag);
    made.onload = () => { tried[name] = "loaded"; done(); };
    made.onerror = () => { tried[name] = "blocked"; done(); };
    set(made);
    document.body.append(made);
  });
  await attempt("read", "/api/v1/cluster", {});
  await attempt("read without cors", "/api/v1/cluster", { mode: "no-cors" });
  await attempt("put", "/api/v1/policies/numaaware", { method: "PUT", body, headers: { "content-type": "application/json" } });
  await attempt("put as text", "/rest/scheduling/v1/numaaware?status=close", { method: "PUT" });
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    await attempt("post " + type, "/api/v1/simulate", { method: "POST", mode: "no-cors", body, headers: { "content-type": type } });
  }
  await attempt("override", "/rest/scheduling/v1/numaaware?status=close&_method=PUT", { method: "POST", mode: "no-cors" });
  await attempt("token", "/api/v1/cluster", { headers: { authorization: "Bearer guess" } });
  await element("script", "script", (made) => { made.src = url + "/api/v1/cluster"; });
  await element("page as script", "script", (made) => { made.src = url + "/overview"; });
  await element("image", "img", (made) => { made.src = url + "/favicon.svg"; });
  return tried;
}"""
FORM = """(url) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: url + "/api/v1/simulate", enctype: "text/plain" });
  const field = document.createElement("input");
  Object.assign(field, { name: '{"pods": 10, "x": "', value: '"}' });
  form.append(field);
  document.body.append(form);
  form.submit();
}"""
FRAME = """(url) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.src = url + "/policies";
  frame.onload = () => { try { done(frame.contentDocument === null ? "foreign" : "ours"); } catch { done("foreign"); } };
  document.body.append(frame);
})"""


def state(server: RunningConsole) -> Any:
    """All that another site could have changed."""
    return server.do(
        lambda found: (found.world.switches, found.world.changes[:], dict(found.simulator.known))
    )


def test_another_site_reads_nothing_and_changes_nothing(browser: Browser, elsewhere: str) -> None:
    with running(few) as server, window(browser) as context:
        before = state(server)
        page = context.new_page()
        page.goto(elsewhere)
        tried = page.evaluate(ATTACKS, server.url)
        assert len(tried) == 12
        # What was sent blindly comes back as nothing; everything else does not even get that far.
        assert {name: told for name, told in tried.items() if told != "blocked"} == {}
        assert state(server) == before


def test_nor_does_a_form_of_another_site(browser: Browser, elsewhere: str) -> None:
    with running(few) as server, window(browser) as context:
        before = state(server)
        page = context.new_page()
        page.goto(elsewhere)
        with page.expect_navigation() as told:
            page.evaluate(FORM, server.url)
        assert told.value is not None
        assert told.value.status == 403
        assert state(server) == before


def test_no_other_site_can_put_the_console_into_a_frame(browser: Browser, elsewhere: str) -> None:
    with running(few) as server, window(browser) as context:
        page = context.new_page()
        page.goto(elsewhere)
        page.evaluate(FRAME, server.url)
        shown = page.frames[1]
        assert not shown.url.startswith(server.url)
        assert shown.locator("nav").count() == 0


# Names and texts of others


def hostile_world(monkeypatch: pytest.MonkeyPatch, name: str) -> Console:
    """A lab in which nodes, namespaces, pods and owners are named by somebody who means harm, and pods are refused."""
    jobs = tuple(job._replace(owner=f"{name}/{name}") for job in pod_churn.JOBS)
    monkeypatch.setattr(pod_churn, "JOBS", jobs)
    spec = lab_cluster()
    nodes = tuple(
        msgspec.structs.replace(node, name=f"{name}{number}") for number, node in enumerate(spec.nodes[:FEW])
    )
    world = LabWorld(0, spec=msgspec.structs.replace(spec, nodes=nodes))
    for moment in range(0, HOUR // 2, 30_000):
        world.advance(moment)
    return Console(world, lambda: world.now)


def unharmed(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main svg[onload], main [onerror], main iframe").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_nodes_pods_and_owners_stay_text(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with running(lambda: hostile_world(monkeypatch, name)) as server, window(browser) as context:
        found = server.do(
            lambda found: next(
                (member.name, pod.namespace, pod.name)
                for member in found.world.cluster
                for pod in member.pods.values()
            )
        )
        node, namespace, pod = (quote(part, safe="") for part in found)
        page = context.new_page()
        for path in (
            "/overview",
            "/nodes",
            f"/nodes/{node}",
            "/pods",
            f"/pods/{namespace}/{pod}",
            f"/whatif?node={node}&shape=cpu:14,mem:40Gi,gpu:0",
            f"/monitoring?node={node}",
            "/policies",
            f"/{quote(name, safe='')}",
            f"/nodes/{quote(name, safe='')}",
        ):
            page.goto(server.url + path)
            expect(page.locator(".live.off")).to_have_count(0)
            expect(page.locator(".bone")).to_have_count(0)
            unharmed(page)
        page.goto(f"{server.url}/nodes/{node}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        page.goto(f"{server.url}/pods/{namespace}/{pod}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_what_stands_in_logs_and_manifests_stays_text(browser: Browser, tmp_path: Path) -> None:
    log, manifest = tmp_path / "kubelet.log", tmp_path / "<img src=x onerror=window.hit=1>.yaml"
    log.write_text(
        "\n".join(
            line
            for markup in HOSTILE
            for line in written(
                ERAS[-1],
                Story(
                    hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
                    merged=Hint(None, preferred=False),
                    reason="TopologyAffinityError",
                    message=f"Resources cannot be allocated with Topology locality {markup}",
                ),
            )
        )
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": HOSTILE[0], "namespace": HOSTILE[1]},
        "spec": {
            "containers": [
                {
                    "name": HOSTILE[0],
                    "image": "x",
                    "resources": {"limits": {"cpu": "999", "memory": "1Gi", HOSTILE[0]: "1"}},
                }
            ]
        },
    }
    manifest.write_text(json.dumps(pod))
    with running(few) as server, window(browser) as context:
        page = context.new_page()
        page.goto(f"{server.url}/diagnose")
        page.locator("input[type=file]").set_input_files([log, manifest])
        expect(page.locator(".finding").first).to_be_visible()
        for one in page.locator(".finding summary").all():
            one.click()
        expect(page.locator("main")).to_contain_text(HOSTILE[0])
        unharmed(page)


# Tokens


class FakeCluster:
    """Knows two users by their names as tokens: one may look, the other may do nothing."""

    RIGHTS: ClassVar = {"viewer": {"get", "post"}, "stranger": set[str]()}

    async def bearer(self, token: str, audience: str = "") -> Caller | None:
        return Caller(token) if token in self.RIGHTS and not audience else None

    async def may(self, caller: Caller, verb: str, path: str) -> bool:
        return verb in self.RIGHTS[caller.username] and path.startswith("/numaware/console/")


def give(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Use it").click()


def test_a_token_stays_in_its_tab_and_can_be_forgotten(browser: Browser) -> None:
    secret = str(uuid.UUID(int=8))
    access = Access("127.0.0.1:0", TokenAuthentication(secret))
    with running(few, access) as server, window(browser) as context:
        page = context.new_page()
        page.goto(f"{server.url}/overview")
        expect(page.get_by_text("This token is not accepted.")).to_have_count(0)
        give(page, "wrong")
        expect(page.get_by_text("This token is not accepted.")).to_be_visible()
        give(page, secret)
        expect(page.locator(".tile")).to_have_count(FEW)
        page.reload()
        expect(page.locator(".tile")).to_have_count(FEW)
        assert secret not in page.url + json.dumps(page.evaluate("({ ...localStorage })"))
        assert context.cookies() == []
        other = context.new_page()
        other.goto(f"{server.url}/overview")
        expect(other.get_by_label("Token")).to_be_visible()
        page.get_by_role("button", name="Forget token").click()
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.locator(".chip")).to_have_count(0)
        assert secret not in json.dumps(page.evaluate("({ ...sessionStorage })"))


def test_a_cluster_asks_for_its_own_tokens_and_says_what_is_not_allowed(browser: Browser) -> None:
    access = Access("127.0.0.1:0", ClusterAuthentication(FakeCluster()))
    with running(few, access) as server, window(browser) as context:
        page = context.new_page()
        page.goto(f"{server.url}/policies")
        expect(page.get_by_text("kubectl create token")).to_be_visible()
        give(page, "stranger")
        expect(page.get_by_text("stranger may not get /numaware/console/api/v1/")).to_be_visible()
        page.get_by_role("button", name="Use another token").click()
        give(page, "viewer")
        page.get_by_role("switch", name="Cluster NUMA affinity").click()
        expect(
            page.get_by_text("viewer may not put /numaware/console/api/v1/policies/numaaware")
        ).to_be_visible()
        assert server.do(lambda found: found.world.switches[0].status) == "open"
