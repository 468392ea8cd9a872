"""Whatever is handed to the device plugin as its configuration: one InputError, or resources that never share a device."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.node.device_plugin.config import Config, read
from numaware.node.device_plugin.health import judged
from numaware.node.device_plugin.inventory import Gpu, Slice, Survey, take_stock
from numaware.node.device_plugin.offer import Offer, RefusedError
from property.test_manifest_fuzz import SCALARS, SOUP, TREES

_MADE = synthetic.read("2s x 1n x 2c +gpu@0,0,1 +nic@0,1")
_GPUS = [one.address for one in _MADE.pci if one.class_code == "030200"]
SURVEY = Survey(
    _MADE,
    gpus={
        address: Gpu(
            number,
            f"GPU-{number}",
            mig=bool(number),
            slices=(Slice(f"MIG-{number}", "1g.10gb", 0),) * bool(number),
        )
        for number, address in enumerate(_GPUS)
    },
)
WORDS = st.sampled_from(
    [
        "nvidia",
        "10de",
        "15b3",
        "0200",
        "03",
        "vfio-pci",
        "0000:01:00.0",
        "x.io/a",
        "x.io/b",
        "",
        "none",
        "mixed",
        "/dev/x",
    ]
)
VALUES = WORDS | SCALARS | st.lists(WORDS, max_size=3) | st.integers(-1, 3)


def some(*keys: str, values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys), values, max_size=3)


SELECTORS = some("vendor", "device", "class", "driver", "address", "of", "x")
RESOURCES = st.fixed_dictionaries(
    {"name": st.sampled_from(["x.io/a", "x.io/b", "nvidia.com/gpu", "x"]) | SCALARS},
    optional={
        "gpus": SELECTORS,
        "pci": SELECTORS,
        "sriov": SELECTORS,
        "replicas": st.integers(-1, 3) | SCALARS,
        "env": WORDS,
        "devices": VALUES,
        "mounts": st.lists(some("hostPath", "containerPath", "readOnly"), max_size=2),
    },
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["v1", "v2"]),
        "flags": some("migStrategy", "failOnInitError", "nvidiaDriverRoot", "plugin", "x"),
        "resources": st.lists(RESOURCES, max_size=3),
    },
)
# Such as a person writes: most of them are taken.
PLAUSIBLE = st.fixed_dictionaries(
    {
        "resources": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["x.io/a", "x.io/b", "x.io/c"])},
                optional={
                    "replicas": st.integers(1, 3),
                    "env": st.just("DEVICES"),
                    "deviceNodes": st.booleans(),
                },
            ).flatmap(
                lambda rule: st.sampled_from(
                    [
                        {**rule, "gpus": {}},
                        {**rule, "gpus": {"vendor": "nvidia"}},
                        {**rule, "pci": {"class": "02"}},
                        {**rule, "pci": {"vendor": ["15b3", "8086"]}},
                        {**rule, "pci": {"vendor": "10de", "class": "0302"}},
                        {**rule, "sriov": {}},
                    ]
                )
            ),
            min_size=1,
            max_size=3,
        )
    },
    optional={
        "flags": st.fixed_dictionaries(
            {"migStrategy": st.sampled_from(["none", "single", "mixed"])},
            optional={
                "plugin": st.fixed_dictionaries(
                    {
                        "passDeviceSpecs": st.booleans(),
                        "deviceListStrategy": st.sampled_from(
                            ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
                        ),
                        "deviceIDStrategy": st.sampled_from(["uuid", "index"]),
                    }
                )
            },
        )
    },
)
EXAMPLES = (PLAUSIBLE | FILES | TREES).map(
    lambda tree: yaml.safe_dump(tree, allow_unicode=True).encode()
) | SOUP.map(lambda parts: "".join(parts).encode("utf-8", "replace"))


def check(data: bytes) -> None:
    try:
        config = read(data, "plugin.yaml")
    except InputError as error:
        refused = error
    else:
        _check_config(config)
        return
    assert "\n" not in str(refused)


def _check_config(config: Config) -> None:
    assert read(msgspec.json.encode(_plain(config)), "plugin.yaml") == config
    try:
        stock = take_stock(config, SURVEY)
    except InputError:
        assert config.flags.mig_strategy == "single"
        return
    seen: set[str] = set()
    for resource in stock.values():
        names = {unit.id for unit in resource.units.values()}
        assert not names & seen
        seen |= names
        _check_offer(Offer.of(resource.rule, judged({}, resource, SURVEY.machine), SURVEY, config.flags))


def _check_offer(offer: Offer) -> None:
    ids = [one.id for one in offer.listed()]
    assert len(set(ids)) == len(ids) == len(offer.resource.units) * offer.resource.rule.replicas
    for size in range(1, min(len(ids), 4) + 1):
        chosen = offer.preferred(ids, (), size)
        assert len(chosen) == size
        assert {*chosen} <= {*ids}
        offer.allocated(chosen)
    for call in (lambda: offer.allocated(["nobody"]), lambda: offer.preferred(ids, (), len(ids) + 1)):
        try:
            call()
        except RefusedError:
            continue
        raise AssertionError


def _plain(config: Config) -> Any:
    """What a file would say; a selector that is not there cannot be written as null."""
    told = msgspec.to_builtins(config)
    told["resources"] = [
        {key: value for key, value in rule.items() if value is not None} for rule in told["resources"]
    ]
    return told


@settings(max_examples=400)
@given(EXAMPLES)
def test_any_file_is_refused_in_one_line_or_keeps_its_promises(data: bytes) -> None:
    check(data)
