from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from numaware.errors import InputError
from numaware.kube.resources import (
    LEASES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    PODS,
    PRIORITY_CLASSES,
)


def test_addresses_are_those_of_the_api() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert NODES.path(name="n1") == "/api/v1/nodes/n1"
    assert LEASES.path("kube-system", "numaware") == (
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/numaware"
    )
    assert NODE_RESOURCE_TOPOLOGIES.path() == "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    assert NUMATOPOLOGIES.path(name="n") == "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/n"


def test_a_kind_without_namespaces_ignores_one() -> None:
    assert PRIORITY_CLASSES.path("ns", "high") == "/apis/scheduling.k8s.io/v1/priorityclasses/high"


def test_the_version_is_written_as_objects_have_it() -> None:
    assert PODS.head == {"apiVersion": "v1", "kind": "Pod"}
    assert LEASES.head == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_no_name_leaves_its_place_in_the_address(namespace: str, name: str) -> None:
    try:
        path = PODS.path(namespace, name)
    except (InputError, UnicodeEncodeError):
        return
    url = URL(f"http://host{path}?watch=1", encoded=True)
    assert url.raw_parts[:4] == ("/", "api", "v1", "namespaces")
    assert (len(url.raw_parts), url.raw_parts[5], url.query_string) == (7, "pods", "watch=1")


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_means_another_folder_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no name of an object"):
        PODS.path("ns", name)
