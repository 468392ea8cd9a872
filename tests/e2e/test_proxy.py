"""The proxy that makes trouble makes the trouble it was asked for, and none otherwise."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator

import pytest

from e2e.api import Api, ApiError
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.proxy import FaultyProxy, is_bind, is_watch

pytestmark = pytest.mark.e2e

MAPS = "/api/v1/namespaces/default/configmaps"
BROKEN = (OSError, http.client.HTTPException)


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(plane) as started:
        yield started


@pytest.fixture
def api(plane: ControlPlane, proxy: FaultyProxy) -> Api:
    return plane.api("admin", proxy.url)


class Watch:
    """A watch of config maps in the background: the lines it has read, and whether it is over."""

    def __init__(self, plane: ControlPlane, proxy: FaultyProxy) -> None:
        self.lines: list[bytes] = []
        self._api = plane.api("admin", proxy.url)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _read(self) -> None:
        connection, response = self._api.stream(f"{MAPS}?watch=1&timeoutSeconds=60")
        try:
            while line := response.readline():
                self.lines.append(line)
        except BROKEN:
            pass
        finally:
            connection.close()

    def has(self, name: str) -> bool:
        return any(f'"name":"{name}"'.encode() in line for line in self.lines)


def note(plane: ControlPlane, name: str) -> None:
    plane.api().create(MAPS, {"metadata": {"name": name}})


def test_what_goes_through_arrives_as_it_was(plane: ControlPlane, api: Api) -> None:
    note(plane, "plain")
    assert api.get(f"{MAPS}/plain") == plane.api().get(f"{MAPS}/plain")
    assert api.status_of("GET", f"{MAPS}/none") == 404
    assert api.create(MAPS, {"metadata": {"name": "written"}})["metadata"]["name"] == "written"
    assert plane.api("stranger", api.url).status_of("GET", MAPS) == 403


def test_refused_requests_are_told_when_to_come_back(proxy: FaultyProxy, api: Api) -> None:
    proxy.refuse(2, lambda method, _path: method == "POST")
    for _ in range(2):
        with pytest.raises(ApiError) as error:
            api.create(MAPS, {"metadata": {"name": "later"}})
        assert error.value.status == 429
    assert api.get(MAPS)["kind"] == "ConfigMapList"
    assert api.create(MAPS, {"metadata": {"name": "later"}})["metadata"]["name"] == "later"
    assert proxy.seen()["refused"] == 2


def test_a_lost_answer_leaves_the_deed_done(plane: ControlPlane, proxy: FaultyProxy, api: Api) -> None:
    proxy.lose_answers(1, lambda method, _path: method == "POST")
    with pytest.raises(BROKEN):
        api.create(MAPS, {"metadata": {"name": "done"}})
    assert plane.api().get(f"{MAPS}/done")["metadata"]["name"] == "done"


def test_a_proxy_that_is_down_breaks_every_connection(proxy: FaultyProxy, api: Api) -> None:
    proxy.down()
    with pytest.raises(BROKEN):
        api.get(MAPS)
    proxy.up()
    assert api.get(MAPS)["kind"] == "ConfigMapList"


def test_delayed_requests_take_their_time(proxy: FaultyProxy, api: Api) -> None:
    proxy.delay(0.3)
    began = time.monotonic()
    api.get(MAPS)
    assert time.monotonic() - began >= 0.3


def test_a_watch_can_be_frozen_and_cut(plane: ControlPlane, proxy: FaultyProxy) -> None:
    watch = Watch(plane, proxy)
    note(plane, "seen")
    eventually(lambda: watch.has("seen"), "the watch brings what is new")
    proxy.freeze()
    note(plane, "held")
    time.sleep(0.3)
    assert not watch.has("held")
    proxy.thaw()
    eventually(lambda: watch.has("held"), "the watch goes on")
    assert proxy.cut(is_watch) == 1
    eventually(lambda: watch.over, "the watch is broken")


def test_a_watch_ends_when_the_api_server_does(plane: ControlPlane, proxy: FaultyProxy) -> None:
    watch = Watch(plane, proxy)
    note(plane, "before")
    eventually(lambda: watch.has("before"), "the watch brings what is new")
    plane.kill("apiserver")
    eventually(lambda: watch.over, "the watch is broken")
    plane.start("apiserver")


def test_requests_are_told_apart_by_what_they_do() -> None:
    assert is_bind("POST", "/api/v1/namespaces/default/pods/p/binding?fieldManager=x")
    assert not is_bind("GET", "/api/v1/namespaces/default/pods/binding")
    assert is_watch("GET", "/api/v1/pods?watch=1")
    assert not is_watch("GET", "/api/v1/pods?limit=500")
