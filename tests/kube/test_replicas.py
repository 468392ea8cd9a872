from __future__ import annotations

import pytest

from numaware.kube.decoding import DecodeError
from numaware.kube.replicas import (
    Controller,
    Service,
    decode_controller,
    decode_replication_controller,
    decode_service,
)
from numaware.workload.scheduling import Requirement, Selector

WEB = Requirement("app", "In", ("web",))
META = '"metadata": {"namespace": "shop", "name": "web"}'


def test_a_service_selects_by_labels() -> None:
    raw = f'{{{META}, "spec": {{"selector": {{"app": "web"}}, "ports": []}}}}'.encode()
    assert decode_service(raw) == Service("shop", "web", {"app": "web"})
    assert decode_service(f"{{{META}}}".encode()) == Service("shop", "web", {})


def test_controllers_select_by_labels_and_expressions() -> None:
    selector = (
        '{"matchLabels": {"app": "web"}, '
        '"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b", "a", "a"]}]}'
    )
    raw = f'{{{META}, "spec": {{"selector": {selector}, "replicas": 3}}}}'.encode()
    wanted = Selector((WEB, Requirement("tier", "NotIn", ("a", "b"))))
    assert decode_controller(raw) == Controller("shop", "web", wanted)


def test_replication_controllers_only_name_labels() -> None:
    raw = f'{{{META}, "spec": {{"selector": {{"app": "web"}}}}}}'.encode()
    assert decode_replication_controller(raw) == Controller("shop", "web", Selector((WEB,)))


def test_what_is_no_selector_is_refused() -> None:
    with pytest.raises(DecodeError, match="controller shop/web"):
        decode_controller(
            f'{{{META}, "spec": {{"selector": {{"matchExpressions": [{{"key": "a", "operator": "Like"}}]}}}}}}'.encode()
        )
