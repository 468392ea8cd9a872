"""Cluster NUMA affinity, switched on a real API server: Volcano's real map, and a Deployment that real controllers drive.

The scheduler's pods are run by fake kubelets: nobody looks into them here, it is enough that they become ready or do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import yaml
from playwright.sync_api import Browser, expect

from e2e.api import Api, Object
from e2e.console_program import Answer, ConsoleProgram
from e2e.control_plane import RBAC, ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.program import eventually
from e2e.proxy import FaultyProxy
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

SWITCH = "/rest/scheduling/v1/numaaware"
NAMESPACE = "volcano-system"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MAP = f"{MAPS}/volcano-scheduler-configmap"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/volcano-scheduler"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/numaware-console-switch"
KEY = "volcano-scheduler.conf"
SHIPPED = RBAC / "optional/console-switch.yaml"
CONF = """\
# ours: ask before you touch it
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack   # the last one
configurations: []
"""
OPEN = CONF.replace("# the last one\n", "# the last one\n  - name: numa-aware\n")


def conf_map(text: str) -> Object:
    return {"metadata": {"name": "volcano-scheduler-configmap"}, "data": {KEY: text, "other": "kept"}}


def deployment() -> Object:
    """A scheduler that counts as ready two seconds after it is, and has failed if that takes twelve."""
    labels = {"app": "volcano-scheduler"}
    container = {"name": "scheduler", "image": "registry.example/vc-scheduler"}
    return {
        "metadata": {"name": "volcano-scheduler"},
        "spec": {
            "replicas": 1,
            "minReadySeconds": 2,
            "progressDeadlineSeconds": 12,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeName": "n0", "containers": [container]},
            },
        },
    }


class State(NamedTuple):
    """What a switch changes: the text, the map's version, and which generation of the Deployment has which ReplicaSets."""

    text: str
    version: str
    generation: int


class Volcano:
    """The installed scheduler, seen with other eyes than the console's."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def install(self, text: str = CONF) -> None:
        """The map as if nobody had switched anything, over whatever a test left."""
        if self.api.status_of("GET", MAP) == 404:
            self.api.create(MAPS, conf_map(text))
        else:
            self.api.patch(MAP, {"data": {KEY: text}})

    def state(self) -> State:
        found, made = self.api.get(MAP), self.api.get(DEPLOYMENT)
        return State(found["data"][KEY], found["metadata"]["resourceVersion"], made["metadata"]["generation"])

    def ready(self) -> bool:
        made = self.api.get(DEPLOYMENT)
        status = made["status"]
        return bool(
            status.get("observedGeneration") == made["metadata"]["generation"]
            and status.get("updatedReplicas")
            == status.get("availableReplicas")
            == status.get("replicas")
            == 1
        )

    def pods(self) -> list[Object]:
        return self.api.list_all(f"/api/v1/namespaces/{NAMESPACE}/pods")

    def runs(self) -> set[str]:
        """The pods that are there to stay."""
        return {pod["metadata"]["name"] for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane"), controllers=True) as started:
        started.api().create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        started.kubectl("apply", "--server-side", "-f", SHIPPED)
        yield started


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(plane) as started:
        yield started


@pytest.fixture(scope="module")
def fakes(plane: ControlPlane) -> Iterator[FakeNodes]:
    specs = [NodeSpec(f"n{number}", machine(2, 8), config("restricted")) for number in range(2)]
    with FakeNodes(plane, specs) as started:
        yield started


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, fakes: FakeNodes) -> Volcano:
    found = Volcano(plane.api())
    found.install()
    plane.api().create(DEPLOYMENTS, deployment())
    eventually(found.ready, "the scheduler runs", 60)
    return found


@pytest.fixture(scope="module")
def console(plane: ControlPlane, proxy: FaultyProxy, installed: Volcano) -> Iterator[ConsoleProgram]:
    with ConsoleProgram(plane, proxy.url) as program:
        eventually(lambda: program.url in program.tail(), "the console prints its address", 60, program)
        yield program


@pytest.fixture
def volcano(installed: Volcano, console: ConsoleProgram) -> Volcano:
    """Closed and ready, whatever a test does to it; the console keeps what it has read for a second."""
    installed.install()
    eventually(installed.ready, "the scheduler runs", 60)
    eventually(lambda: console.ask("GET", SWITCH) == told("close"), "the switch is closed")
    return installed


@pytest.fixture(scope="module")
def no_node(installed: Volcano, fakes: FakeNodes) -> None:
    """The node that the scheduler has to be on is gone from here on, so no new pod of it ever starts."""
    fakes.vanish("n0")


def move(console: ConsoleProgram, status: str) -> Answer:
    return console.ask("PUT", f"{SWITCH}?status={status}")


def told(status: str) -> Answer:
    data = {"plugin": "numa-aware", "status": status, "installed": True}
    return Answer(200, {"code": 200, "msg": "success", "data": data})


def test_open_open_again_and_close(console: ConsoleProgram, volcano: Volcano) -> None:
    first, pods = volcano.state(), volcano.runs()
    assert console.ask("GET", SWITCH) == told("close")

    assert console.ask("PUT", SWITCH, {"status": "open"}) == told("open")
    opened = volcano.state()
    assert opened.text == OPEN
    assert volcano.api.get(MAP)["data"]["other"] == "kept"
    assert opened.generation == first.generation + 1
    # It is answered when the new pod is there and ready, and the old one on its way out.
    assert volcano.ready()
    assert volcano.runs().isdisjoint(pods)

    assert move(console, "open") == told("open")
    assert volcano.state() == opened

    assert move(console, "close") == told("close")
    closed = volcano.state()
    assert closed.text == CONF
    assert closed.generation == opened.generation + 1
    assert volcano.ready()
    log = console.log.read_text()
    assert log.count("configuration written") == 2
    assert log.count("scheduler restarted") == 2


@pytest.mark.parametrize("status", ["", "on", "OPEN"])
def test_a_status_that_is_none_is_the_callers_mistake(
    console: ConsoleProgram, volcano: Volcano, status: str
) -> None:
    before = volcano.state()
    answer = move(console, status)
    assert (answer.status, answer.body["code"]) == (400, 400)
    assert volcano.state() == before


def test_without_the_map_nothing_is_switched_and_it_says_why(
    console: ConsoleProgram, volcano: Volcano
) -> None:
    volcano.api.delete(MAP)
    eventually(lambda: console.ask("GET", SWITCH).status == 500, "the console notices")
    generation = volcano.api.get(DEPLOYMENT)["metadata"]["generation"]
    for answer in (console.ask("GET", SWITCH), move(console, "open")):
        assert (answer.status, answer.body["code"], answer.body["msg"]) == (500, 500, "remote server busy")
        assert "not installed" in answer.body["data"]["reason"]
    problem = console.ask("PUT", "/api/v1/policies/numaaware", {"status": "open"})
    assert problem.status == 409
    assert "not installed" in problem.body["detail"]
    assert volcano.api.status_of("GET", MAP) == 404
    assert volcano.api.get(DEPLOYMENT)["metadata"]["generation"] == generation


def test_broken_yaml_in_place_is_left_as_it_is(console: ConsoleProgram, volcano: Volcano) -> None:
    volcano.install("tiers:\n- plugins: [")
    before = volcano.state()
    eventually(lambda: console.ask("GET", SWITCH).status == 500, "the console notices")
    answer = move(console, "open")
    assert answer.status == 500
    assert "broken YAML" in answer.body["data"]["reason"]
    assert volcano.state() == before


def test_somebody_who_writes_in_between_loses_nothing(
    console: ConsoleProgram, volcano: Volcano, proxy: FaultyProxy
) -> None:
    generation = volcano.state().generation
    theirs = CONF.replace("overcommit", "overcommit-2")
    proxy.delay(2, lambda method, path: method == "PATCH" and "/configmaps/" in path)
    try:
        with ThreadPoolExecutor(1) as beside:
            answer = beside.submit(move, console, "open")
            eventually(lambda: _progress(console) is not None, "it is being moved")
            volcano.install(theirs)
            busy = move(console, "close")
            assert answer.result() == told("open")
    finally:
        proxy.delay(0)
    assert (busy.status, busy.body["msg"]) == (409, "it is being moved already")
    state = volcano.state()
    assert state.text == OPEN.replace("overcommit", "overcommit-2")
    assert state.generation == generation + 1


def _progress(console: ConsoleProgram) -> Object | None:
    switches = console.ask("GET", "/api/v1/policies").body["switches"]
    found: Object | None = switches[0]["progress"]
    return found


def test_an_answer_that_is_lost_is_looked_for(
    console: ConsoleProgram, volcano: Volcano, proxy: FaultyProxy
) -> None:
    generation = volcano.state().generation
    proxy.lose_answers(1, lambda method, path: method == "PATCH" and "/configmaps/" in path)
    assert move(console, "open") == told("open")
    assert volcano.state().text == OPEN
    assert volcano.state().generation == generation + 1


def test_runtime_pod_affinity_is_one_word_in_openfuyaos_object(
    plane: ControlPlane, console: ConsoleProgram
) -> None:
    path = "/rest/scheduling/v1/podaffinity"
    answer = console.ask("PUT", f"{path}?status=open")
    assert answer.status == 409
    assert answer.body["msg"].startswith("not installed")
    api = plane.api()
    if api.status_of("GET", "/api/v1/namespaces/tcs") == 404:
        api.create("/api/v1/namespaces", {"metadata": {"name": "tcs"}})
        plane.kubectl("apply", "--server-side", "-f", RBAC / "optional/console-switch-affinity.yaml")
    oenumas = "/apis/resource.sop.huawei.com/v1alpha1/namespaces/tcs/oenumas"
    spec = {"name": "testapp1", "node": [{"name": "n0", "podAffinity": []}]}
    made = {"apiVersion": "resource.sop.huawei.com/v1alpha1", "kind": "Oenuma"}
    api.create(oenumas, {**made, "metadata": {"name": "podafi"}, "spec": spec})
    eventually(lambda: console.ask("GET", path).body["data"]["installed"], "the console notices")
    for status, word in (("open", "enable"), ("close", "disable")):
        answer = console.ask("PUT", f"{path}?status={status}")
        data = {"plugin": "pod-affinity", "status": status, "installed": True}
        assert answer == Answer(200, {"code": 200, "msg": "success", "data": data})
        assert api.get(f"{oenumas}/podafi")["spec"] == {**spec, "updateenable": word}
    before = api.get(f"{oenumas}/podafi")["metadata"]["resourceVersion"]
    assert console.ask("PUT", f"{path}?status=close").status == 200
    assert api.get(f"{oenumas}/podafi")["metadata"]["resourceVersion"] == before
    api.delete(f"{oenumas}/podafi")


class Right(NamedTuple):
    resource: str
    verb: str


@pytest.mark.parametrize(
    "right",
    [
        Right(rule["resources"][0], verb)
        for rule in next(yaml.safe_load_all(SHIPPED.read_text(encoding="utf-8")))["rules"]
        for verb in rule["verbs"]
    ],
    ids=lambda right: f"{right.verb}-{right.resource}",
)
def test_one_verb_less_is_missed_and_leaves_everything_as_it_was(
    plane: ControlPlane, console: ConsoleProgram, volcano: Volcano, right: Right
) -> None:
    shipped = next(yaml.safe_load_all(SHIPPED.read_text(encoding="utf-8")))["rules"]
    less = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if right != Right(rule["resources"][0], verb)]}
        for rule in shipped
    ]
    before = volcano.state()
    volcano.api.patch(ROLE, {"rules": less})
    try:
        eventually(lambda: not _may(plane, right), "the verb is gone")
        answer = move(console, "open")
        assert answer.status in (409, 500)
        assert "may not read" in str(answer.body) or "forbidden" in str(answer.body)
        after = volcano.state()
        assert after.text == CONF
        assert after.generation == before.generation
    finally:
        volcano.api.patch(ROLE, {"rules": shipped})
        eventually(lambda: _may(plane, right), "the verb is back")


def _may(plane: ControlPlane, right: Right) -> bool:
    maps = right.resource == "configmaps"
    asked = {
        "group": "" if maps else "apps",
        "resource": right.resource,
        "verb": right.verb,
        "namespace": NAMESPACE,
        "name": "volcano-scheduler-configmap" if maps else "volcano-scheduler",
    }
    user = plane.users["numaware-console"]
    body = {"spec": {"user": user.name, "groups": user.groups, "resourceAttributes": asked}}
    answer = plane.api().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_the_page_shows_the_change_asks_tells_how_far_it_is_and_takes_it_back(
    console: ConsoleProgram, volcano: Volcano, browser: Browser
) -> None:
    page = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{console.url}/policies")
    switch = page.get_by_role("switch", name="Cluster NUMA affinity")
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(page.get_by_text("not installed", exact=True)).to_have_count(1)
    # NUMA distance: nobody has given this console the right.
    expect(page.get_by_text("locked", exact=True)).to_have_count(1)
    switch.click()
    expect(page.locator(".diff .a")).to_have_text("+   - name: numa-aware")
    expect(page.locator(".diff .d")).to_have_count(0)
    assert volcano.state().text == CONF
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Applied")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(switch).to_have_attribute("aria-checked", "true")
    assert volcano.state().text == OPEN
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".diff .d")).to_have_text("-   - name: numa-aware")
    page.get_by_role("button", name="Apply").click()
    expect(switch).to_have_attribute("aria-checked", "false", timeout=30_000)
    assert volcano.state().text == CONF
    page.context.close()


def test_a_scheduler_that_does_not_come_up_is_put_back(
    console: ConsoleProgram, volcano: Volcano, no_node: None, browser: Browser
) -> None:
    """The last one here: there is no way back from `no_node`."""
    before, pods = volcano.state(), volcano.runs()
    page = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{console.url}/policies")
    answer = move(console, "open")
    assert (answer.status, answer.body["code"]) == (500, 500)
    assert "put back as it was" in answer.body["data"]["reason"]
    assert answer.body["data"]["status"] == "close"
    after = volcano.state()
    assert after.text == CONF == before.text
    assert after.generation == before.generation + 2
    # The pod from before has been there all the time.
    assert volcano.runs() == pods
    template = volcano.api.get(DEPLOYMENT)["spec"]["template"]["metadata"]
    assert "put back as it was" in console.log.read_text()
    assert "kubectl.kubernetes.io/restartedAt" in template.get("annotations", {})
    expect(page.get_by_text("put back").first).to_be_visible(timeout=20_000)
    page.context.close()
