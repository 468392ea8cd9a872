from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.twin.config import MemoryReservation
from numaware.twin.flags import read
from numaware.twin.settings import Settings

GI = Quantity.parse("1Gi")


def test_all_flags_of_the_managers_are_read() -> None:
    text = (
        'KUBELET_EXTRA_ARGS="--cpu-manager-policy=static --kube-reserved=cpu=200m,memory=512Mi '
        "--reserved-memory 0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi --topology-manager-policy=restricted "
        "--topology-manager-scope=pod --topology-manager-policy-options=prefer-closest-numa-nodes=true "
        "--feature-gates=A=true,B=false --reserved-cpus=0-1 --eviction-hard=memory.available<100Mi,nodefs.available<5% "
        "--system-reserved=cpu=1 --system-reserved-cgroup=/s --kube-reserved-cgroup /k --memory-manager-policy=Static "
        '--cpu-manager-policy-options full-pcpus-only=true --cpu-manager-reconcile-period=5s --fail-swap-on --v=2"'
    )
    assert read(text) == Settings(
        topology_policy="restricted",
        topology_scope="pod",
        topology_options=(("prefer-closest-numa-nodes", "true"),),
        cpu_policy="static",
        cpu_options=(("full-pcpus-only", "true"),),
        cpu_reconcile_period="5s",
        memory_policy="Static",
        reserved_memory=(
            MemoryReservation(0, (("hugepages-1Gi", Quantity.parse("2Gi")), ("memory", GI))),
            MemoryReservation(1, (("memory", GI),)),
        ),
        reserved_cpus="0-1",
        kube_reserved=(("cpu", "200m"), ("memory", "512Mi")),
        system_reserved=(("cpu", "1"),),
        kube_reserved_cgroup="/k",
        system_reserved_cgroup="/s",
        eviction_hard=(("memory.available", "100Mi"), ("nodefs.available", "5%")),
        feature_gates=(("A", True), ("B", False)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "--cpu-manager-policy=static --eviction-hard=memory.available<1Gi",
        "--cpu_manager_policy static --eviction-hard 'memory.available<1Gi'",
        "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static\nOTHER=\"--eviction-hard='memory.available<1Gi'\"\n",
        "[Service]\nEnvironment=\"ARGS=--cpu-manager-policy=static --eviction-hard='memory.available<1Gi'\"\n",
        "ExecStart=/usr/bin/kubelet $ARGS \\\n  --cpu-manager-policy=static \\\n  --eviction-hard='memory.available<1Gi'\n",
        "/usr/bin/kubelet\0--cpu-manager-policy\0static\0--eviction-hard=memory.available<1Gi\0",
        "# --cpu-manager-policy=none\n--cpu-manager-policy=static --eviction-hard=memory.available<1Gi # --v=9",
        "--cpu-manager-policy=none --eviction-hard=memory.available<1Gi --cpu-manager-policy=static",
    ],
)
def test_flags_are_found_in_every_place_people_keep_them(text: str) -> None:
    assert read(text) == Settings(cpu_policy="static", eviction_hard=(("memory.available", "1Gi"),))


def test_a_repeated_map_grows_and_cpu_options_are_not_split_at_commas() -> None:
    text = "--kube-reserved=cpu=1 --kube-reserved=memory=1Gi --cpu-manager-policy-options=a=b,c=d --cpu-manager-policy-options=e=f"
    found = read(text)
    assert found.kube_reserved == (("cpu", "1"), ("memory", "1Gi"))
    assert found.cpu_options == (("a", "b,c=d"), ("e", "f"))


def test_a_text_without_flags_sets_nothing() -> None:
    assert read("") == read("hello world\n") == Settings()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "--kube-reserved=cpu",
            'invalid argument "cpu" for "--kube-reserved" flag: malformed pair, expect string=string',
        ),
        (
            "--eviction-hard=x=1",
            'invalid argument "x=1" for "--eviction-hard" flag: malformed pair, expect string<string',
        ),
        ("--cpu-manager-policy-options=x", "malformed pair, expect string=string"),
        ("--feature-gates=A", "malformed pair, expect string=bool"),
        (
            "--feature-gates=A=maybe",
            'invalid value of A: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("--reserved-memory=0", "expected numaNodeID:type=quantity[,type=quantity...], got 0"),
        ("--reserved-memory=x:memory=1Gi", "failed to convert the NUMA node ID, expected integer, got x"),
        (
            "--reserved-memory=0:memory",
            "the reserved limit has incorrect value, expected type=quantity, got memory",
        ),
        ("--reserved-memory=0:cpu=1", 'memory type conversion error, unknown type: "cpu"'),
        ("--reserved-memory=0:memory=lots", "failed to parse the quantity: lots"),
        ('--kube-reserved="cpu=1', "cannot be split into words: no closing quotation"),
        ("x" * (1 << 17) + "y", "larger than 128 KiB"),
    ],
)
def test_a_flag_the_kubelet_would_not_parse_is_an_input_error(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, "kubelet.env")
    assert caught.value.source == "kubelet.env"
    assert str(caught.value.problem).endswith(reason) or reason in str(caught.value.problem)
