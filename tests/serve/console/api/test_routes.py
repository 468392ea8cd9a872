"""What the page is made of: numbers that agree with each other, whoever asks for them."""

from __future__ import annotations

import gzip

import pytest

from numaware.machine.cpuset import CpuSet
from numaware.serve.console.app import operations_of
from numaware.workload.dra.objects import Allotted, ClaimSpec, DeviceClaim, DeviceRequest
from support.console_world import NOW, client, console, get, lopsided_console, post, shared_console

GIB = 1 << 30


def test_the_process_says_that_it_is_well() -> None:
    assert get("/healthz") == {"status": "ok"}


def test_the_machines_of_the_lab_are_listed() -> None:
    nodes = {node["name"]: node for node in get("/api/v1/nodes")["items"]}
    assert (nodes["p100-0"]["cpus"], nodes["p100-0"]["devices"]) == (28, {"nvidia.com/gpu": 3})
    assert (nodes["box-0"]["cpus"], len(nodes["box-0"]["numa"])) == (32, 2)
    assert nodes["gpu-0"]["devices"] == {"nvidia.com/gpu": 8}


def test_pages_of_a_list_join_to_the_whole() -> None:
    whole = [node["name"] for node in get("/api/v1/nodes")["items"]]
    joined: list[str] = []
    after = ""
    while True:
        page = get("/api/v1/nodes", limit="7", **({"continue": after} if after else {}))
        joined += [node["name"] for node in page["items"]]
        after = page["continue"]
        if not after:
            break
    assert joined == whole
    assert len(whole) == 30


def test_nodes_are_found_by_pool_and_policy() -> None:
    assert {node["pool"] for node in get("/api/v1/nodes", q="epyc")["items"]} == {"epyc"}
    found = get("/api/v1/nodes", q="single-numa")["items"]
    assert {node["policy"] for node in found} == {"single-numa-node"}


def test_the_wall_the_numbers_and_the_answers_agree_on_every_verdict() -> None:
    shape = {"cpu": "10", "memory": "120Gi", "gpu": "0"}
    wall = get("/api/v1/wall", **shape)
    numbers = get("/api/v1/cluster", **shape)
    answers = post("/api/v1/whatif", {"shape": {"cpu": "10", "memory": "120Gi", "gpu": 0}})
    by_tile = {tile[0]: wall["verdicts"][tile[3]] for tile in wall["tiles"]}
    by_answer = {answer["node"]: answer["verdict"] for answer in answers["nodes"]}
    assert by_tile == by_answer
    assert numbers["verdicts"] == answers["verdicts"]
    assert sum(numbers["verdicts"].values()) == numbers["nodes"] == len(by_tile)
    assert numbers["stranded"]["pods"] == sum(tile[4] for tile in wall["tiles"])


def test_a_node_that_says_yes_admits_when_it_is_asked_why() -> None:
    answers = post("/api/v1/whatif", {"shape": {"cpu": "6", "memory": "24Gi", "gpu": 0}})["nodes"]
    kinds = set()
    for answer in answers:
        told = get("/api/v1/explain", node=answer["node"], cpu="6", memory="24Gi", gpu="0")["explanation"]
        if answer["verdict"] in ("aligned", "split"):
            assert told["admitted"]
        if answer["verdict"] == "refused":
            assert not told["admitted"]
            assert told["admittedWhenEmpty"]
        kinds.add(answer["verdict"])
    assert "aligned" in kinds


def test_every_cpu_of_a_node_is_reserved_owned_or_shared_and_never_two_of_them() -> None:
    for name in ("gpu-0", "box-0", "epyc-0"):
        node = get(f"/api/v1/nodes/{name}")
        owned = [CpuSet.parse(pod["cpus"]) for pod in node["pods"] if pod["cpus"]]
        everything = CpuSet.parse(node["sharedCpus"])
        for cpus in owned:
            assert not everything & cpus
            everything |= cpus
        assert len(everything) == node["summary"]["cpus"]
        assert sum(len(core[0]) for numa in node["numa"] for core in numa["cores"]) == node["summary"]["cpus"]


def test_letters_are_given_once_and_only_to_pods_that_own_something() -> None:
    node = get("/api/v1/nodes/gpu-1")
    slots = [pod["slot"] for pod in node["pods"] if pod["slot"] is not None]
    assert sorted(slots) == sorted(set(slots))
    assert all((pod["slot"] is None) == (pod["numa"] == []) for pod in node["pods"])


def test_a_pod_keeps_its_letter_while_others_come_and_go() -> None:
    found = console()
    name = "gpu-2"

    def letters() -> dict[str, int]:
        view = client(found).get(f"/api/v1/nodes/{name}").json()
        return {pod["uid"]: pod["slot"] for pod in view["pods"] if pod["slot"] is not None}

    before = letters()
    found.world.advance(NOW + 300_000)
    after = letters()
    assert before.keys() != after.keys()
    assert {uid: after[uid] for uid in before if uid in after} == {
        uid: slot for uid, slot in before.items() if uid in after
    }


def test_memory_of_a_numa_node_adds_up() -> None:
    for numa in get("/api/v1/nodes/gpu-3")["numa"]:
        held = sum(one["size"] for one in numa["held"])
        assert numa["memory"] == numa["freeToPinMemory"] + numa["memoryReserved"] + held


def test_a_pod_is_where_its_node_says_it_is() -> None:
    pods = [pod for pod in get("/api/v1/pods", node="gpu-0")["items"] if pod["numa"]]
    assert pods
    view = get(f"/api/v1/pods/{pods[0]['namespace']}/{pods[0]['name']}")
    assert view["summary"] == pods[0]
    on_node = {pod["uid"]: pod for pod in get("/api/v1/nodes/gpu-0")["pods"]}[pods[0]["uid"]]
    assert view["cpus"] == on_node["cpus"]
    assert [zone["numa"] for zone in view["placed"]["observed"]] == pods[0]["numa"]


def test_a_running_pod_is_asked_about_as_if_it_came_anew() -> None:
    pod = next(pod for pod in get("/api/v1/pods", node="gpu-0")["items"] if pod["aligned"])
    name = f"{pod['namespace']}/{pod['name']}"
    answers = post("/api/v1/whatif", {"pod": name})["nodes"]
    assert next(answer for answer in answers if answer["node"] == "gpu-0")["verdict"] == "aligned"
    assert get("/api/v1/explain", node="gpu-0", pod=name)["explanation"]["admitted"]


def test_headroom_counts_pods_that_would_be_admitted_one_after_the_other() -> None:
    room = get("/api/v1/headroom", cpu="10", memory="40Gi", gpu="0")
    assert room["headroom"]["pods"] == sum(room["headroom"]["byNode"].values())
    assert room["headroom"]["nodes"] == len(room["headroom"]["byNode"])
    alone = post("/api/v1/whatif", {"shape": {"cpu": "10", "memory": "40Gi", "gpu": 0}})
    footprint = {answer["node"] for answer in alone["nodes"] if answer["verdict"] in ("aligned", "split")}
    assert room["headroom"]["byNode"].keys() == footprint


def test_the_largest_pod_fits_one_numa_node_and_a_larger_one_does_not() -> None:
    largest = get("/api/v1/cluster")["largest"][0]
    for cpus, fits in ((largest["cpus"], True), (largest["cpus"] + 1, False)):
        answers = post("/api/v1/whatif", {"shape": {"cpu": str(cpus), "memory": "1Gi", "gpu": 0}})["nodes"]
        answer = next(answer for answer in answers if answer["node"] == largest["node"])
        on_one = answer["verdict"] == "aligned" and len(answer["numa"]) == 1
        assert on_one == fits or largest["cpus"] % 2


def test_a_merge_shows_what_every_resource_says_and_who_won() -> None:
    told = get("/api/v1/explain", node="box-0", cpu="1", memory="1Gi", gpu="0")
    merge = told["merges"][0]
    assert merge["masks"] == [[0], [1], [0, 1]]
    assert {row["resource"] for row in merge["rows"]} == {"cpu", "memory"}
    won = [mask for mask, outcome in zip(merge["masks"], merge["merged"], strict=True) if outcome == "chosen"]
    assert won == ([merge["best"]] if merge["admitted"] else [])


def test_other_policies_can_be_tried_without_changing_any() -> None:
    shape = {"cpu": "30", "memory": "8Gi", "gpu": 0}
    strict = post("/api/v1/whatif", {"shape": shape, "policy": "single-numa-node"})
    lax = post("/api/v1/whatif", {"shape": shape, "policy": "none"})
    assert {answer["policy"] for answer in strict["nodes"]} == {"single-numa-node"}
    fitting = [
        sum(answer[kind] for kind in ("aligned", "split")) for answer in (strict["verdicts"], lax["verdicts"])
    ]
    assert fitting[0] <= fitting[1]
    box = next(answer for answer in strict["nodes"] if answer["node"] == "box-0")
    assert box["verdict"] in ("never", "full")


def test_a_manifest_is_asked_about_with_all_its_rules() -> None:
    manifest = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: shop}
    spec:
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          nodeSelector: {pool: box}
          containers:
            - {name: web, image: registry.example/web, resources: {limits: {cpu: "1", memory: 1Gi}}}
    """
    answers = post("/api/v1/whatif", {"manifest": manifest})
    assert answers["pod"]["name"] == "shop/web"
    for answer in answers["nodes"]:
        if not answer["node"].startswith("box"):
            assert answer["verdict"] == "never"
            assert answer["reasons"][0]["code"] == "outside"
    told = post("/api/v1/explain", {"manifest": manifest, "node": "box-0"})["explanation"]
    assert told["pod"] == {"namespace": "shop", "name": "web"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/nodes/nowhere", 404),
        ("/api/v1/pods/no/body", 404),
        ("/api/v1/explain?node=nowhere", 404),
        ("/api/v1/monitoring?node=nowhere", 404),
        ("/api/v1/simulate/99", 404),
        ("/api/v1/simulate/one", 404),
        ("/api/v1/nodes?limit=0", 400),
        ("/api/v1/nodes?limit=x", 400),
        ("/api/v1/cluster?colour=red", 400),
        ("/api/v1/cluster?cpu=1&cpu=2", 400),
        ("/api/v1/cluster?cpu=much", 422),
        ("/api/v1/cluster?memory=99999Pi", 422),
        ("/api/v1/cluster?cpu=-1", 422),
        ("/nowhere", 404),
    ],
)
def test_what_cannot_be_answered_is_told_as_a_problem(path: str, status: int) -> None:
    answer = client().get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"shape": {"gpu": -1}}', 400),
        (b'{"manifest": "kind: ConfigMap"}', 422),
        (b'{"manifest": "a: [b"}', 422),
        (b'{"pod": "no/body"}', 404),
        (b"[" * 100_000, 400),
    ],
)
def test_bad_questions_are_told_as_problems(body: bytes, status: int) -> None:
    answer = client().post("/api/v1/whatif", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_has_not_changed_is_not_sent_again() -> None:
    first = client().get("/api/v1/nodes/gpu-0")
    again = client().get("/api/v1/nodes/gpu-0", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_long_answers_are_compressed_for_those_who_can_read_it() -> None:
    plain = client().get("/api/v1/nodes", headers={"accept-encoding": "identity"})
    with client().stream("GET", "/api/v1/nodes", headers={"accept-encoding": "gzip"}) as answer:
        zipped = b"".join(answer.iter_raw())
    assert gzip.decompress(zipped) == plain.content
    assert len(zipped) < len(plain.content) / 3


def test_the_document_describes_every_operation() -> None:
    document = get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    operations = operations_of(shared_console())
    assert described == {(one.path, one.method) for one in operations}
    assert {path for path, _ in described if path.startswith("/rest/")} == {
        "/rest/scheduling/v1/numaaware",
        "/rest/scheduling/v1/numadistance",
        "/rest/scheduling/v1/numapodaffinity",
        "/rest/scheduling/v1/podaffinity",
        "/rest/scheduling/api/v1/query",
        "/rest/scheduling/api/v1/query_range",
    }


def test_the_past_is_recorded_with_its_storm_and_its_calm() -> None:
    series = get("/api/v1/monitoring", node="gpu-0", minutes="60")
    points = [point for point in series["cluster"] if point]
    assert len(points) > 100
    first, last = points[: len(points) // 2], points[-len(points) // 4 :]
    assert sum(point["refusals"] for point in first) > 0
    assert sum(point["refusals"] for point in last) == 0
    assert [numa["numa"] for numa in series["numa"]] == [0, 1]
    assert all(value is None or 0 <= value <= 64 for numa in series["numa"] for value in numa["cpu"])


def test_events_are_listed_newest_first() -> None:
    times = [event["time"] for event in get("/api/v1/events", limit="50")["items"]]
    assert len(times) == 50
    assert times == sorted(times, reverse=True)


def test_an_explanation_is_kept_until_there_is_news_of_its_devices() -> None:
    manifest = """
        apiVersion: v1
        kind: Pod
        metadata: {name: x, namespace: default}
        spec:
          resourceClaims: [{name: gpu, resourceClaimName: c}]
          containers:
            - {name: a, resources: {limits: {cpu: "1", memory: 1Gi}}}
    """
    found = lopsided_console()
    node = found.world.cluster.members[0].name

    def state() -> str:
        told = client(found).post("/api/v1/explain", json={"manifest": manifest, "node": node}).json()
        (part,) = told["explanation"]["dra"]
        return str(part["state"])

    assert (state(), state()) == ("unseen", "unseen")
    found.world.cluster.dra.put(
        DeviceClaim(
            "default", "c", ClaimSpec((DeviceRequest("r", ("gpu",)),)), (Allotted("r", "d.io", node, "d0"),)
        )
    )
    assert state() == "allocated"
