"""Explanations in Chinese: why a kubelet refuses a pod, what would help, and what a verdict alone does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaware.diagnose.texts.english.explain import quantity as bare
from numaware.diagnose.texts.template import Each, Specs
from numaware.workload.demand import is_memory

_MOST_SETS = 4

LABELS: Mapping[str, str] = {
    # why a resource cannot be had
    "cause-nowhere": "请求 {asked:amount}，任何 NUMA 节点组合都凑不出来：总共可独占 {free:quantity}。",
    "cause-apart": "请求 {asked:amount}：可以放在 {on:some}，但{apart:apart}。",
    "cause-stuck": "请求 {asked:amount}：可以放在 {on:some}，前提是{stuck:each}也放得下。",
    "cause-together": "请求 {asked:amount}：可以放在 {on:some}，但无法与其他资源同时满足。",
    "cause-wide": (
        "请求 {asked:amount}：即使机器全空也要占 {width:numa}（最大的一个只有 {largest:quantity}），而 {policy} 只给一个。"
    ),
    "cause-widened": (
        "请求 {asked:amount}：必须与{by:each}取自同一组 NUMA 节点，而后者即使机器全空也要占 {width:numa}。"
    ),
    "cause-widened-together": (
        "请求 {asked:amount}：必须与{by:each}取自同一组 NUMA 节点，合在一起即使机器全空也要占 {width:numa}。"
    ),
    "cause-fragmented": (
        "请求 {asked:amount}：按机器的大小 {fewest:numa}就够，现在却只能放在 {on:some}，{policy} 不接受：{free:lacking}"
        "[[；本 Pod 的 init 容器用的是 {tied:set}，这个容器也必须放在那里]]{rules:also}。"
    ),
    "cause-odd-cores": (
        "请求 {asked:amount}，凑不成整核：每个物理核有 {threads:threads}，而 full-pcpus-only 只分配整核。"
    ),
    "cause-no-cores": "请求 {asked:amount}，系统没有占用的物理核上只剩 {left} 个（full-pcpus-only）。",
    "cause-endless": (
        "distribute-cpus-across-numa 要按整核分散 {asked:amount}，余下的部分在任何 NUMA 节点上都没有整核可用，"
        "kubelet 会无休止地试下去。"
    ),
    "cause-no-pool": "{without:set} 根本没有 {kind}，连 0 页的池都没有，内存管理器没有考虑这种情况。",
    "cause-sparse": (
        "prefer-closest-numa-nodes 按 NUMA 编号查距离，要求编号从 0 开始连续，而这里的编号是 {numbers:list}。"
    ),
    "cause-short": "请求 {asked:amount}，总共可独占 {free:quantity}[[：{here:lacking}]]{rules:also}。",
    "rule-group": "{nodes:set} 是一组，只接受占用整组的请求",
    "rule-single": "{nodes:set} 已被单节点的请求占用，不能再编成组",
    "rule-kinds": "各类内存必须取自同一组 NUMA 节点，而{short:each}不够",
    # who is in the way
    "block-system": "系统在 NUMA {numa} 上预留 {amount:amount}",
    "block-pod": "{pod}（{container}）在 {nodes:set} 上占用 {amount:amount}",
    "block-own": "本 Pod（{container}）在 {nodes:set} 上占用 {amount:amount}",
    "block-more": "以及另外 {count} 项",
    # what would help
    "change-request": "{parts:asking}",
    "change-setting": "把 {field} 设为 {value}（现为 {current}）",
    "change-add": "添加选项 {option}",
    "change-remove": "去掉选项 {option}",
    "change-evict": "驱逐 {pods:these}",
    "remedy": "{change}   # 这样 {node} 就会准入",
    # what a verdict alone does not say
    "crash": "kubelet 自身会崩溃：{panic}",
    "caveat-newer": "kubelet {version} 按 {known} 建模（已知规则的最新版本）：它的不同之处无法预见",
    "caveat-here": "这个 Pod 已经在该节点上：这里给出的是 kubelet 重启之后，按它现在占用的资源会作出的答复",
    "beyond-amount": (
        "Pod 请求 {asked:amount}，而节点只提供 {most:quantity}：调度器不会把它送到这里，kubelet 也会以 "
        "OutOf{resource} 拒绝它"
    ),
    "beyond-device": "这里没有设备插件提供 {resource}，kubelet 会略过它；调度器不会把这个 Pod 送到这里",
    "caveat-pod-level": (
        "没有容器能独占{what:own}：Pod 使用 Pod 级资源（spec.resources），CPU 管理器和内存管理器会跳过这样的 Pod"
    ),
    "caveat-qos": (
        "没有容器能独占{what:own}：Pod 是 {qos}，只有 Guaranteed 的 Pod 才可以[[（容器 {container} {gap}）]]"
    ),
    "caveat-fraction": "容器 {container} 不能独占 CPU：它请求 {cpu} CPU，只有整数才会绑核",
    "caveat-slow": (
        "真实的 kubelet 要为这个 Pod 尝试 {count:thousands} 种提示组合，约需 {seconds:about}；减少 NUMA 节点"
        "（BIOS：NPS、SNC）或减少带拓扑的资源，可以避免变慢"
    ),
    "caveat-slow-container": (
        "真实的 kubelet 要为容器 {container} 尝试 {count:thousands} 种提示组合，约需 {seconds:about}；减少 NUMA 节点"
        "（BIOS：NPS、SNC）或减少带拓扑的资源，可以避免变慢"
    ),
    # what a pod has by DRA
    "dra-aligned": (
        "kubelet 不做对齐：由 DRA 提供。{what} 得到 {devices:placed}，Pod 的 CPU 和内存也在 {nodes:set}：只是碰巧，没有什么保证它们在一起"
    ),
    "dra-across": "kubelet 不做对齐：由 DRA 提供。{what} 得到 {devices:placed}，而 Pod 的 CPU 和内存在 {nodes:set}",
    "dra-alone": "kubelet 不做对齐：由 DRA 提供。{what} 得到 {devices:placed}；Pod 没有其他属于某个 NUMA 节点的资源",
    "dra-nowhere": "kubelet 不做对齐：由 DRA 提供。{what} 得到 {devices:placed}，驱动没有说明它在哪个 NUMA 节点上",
    "dra-open": (
        "kubelet 不做对齐：由 DRA 提供。kube-scheduler 还没有分配 {what}"
        "[[；这里空闲的有：{offers:placed}]][[；无论选哪个，CPU 和内存都在 {nodes:set}]]"
    ),
    "dra-unseen": "kubelet 不做对齐：由 DRA 提供。{what} 只知道名字：没有看到声明，也没有看到它的模板",
    "dra-hidden": (
        "kubelet 不做对齐：由 DRA 提供。{what} 的情况无法说明：这个账号不能列出 resourceslices、resourceclaims 和 deviceclasses"
    ),
    "dra-elsewhere": "kubelet 不做对齐：由 DRA 提供。{what} 的设备在 {nodes:each} 上，所以 Pod 只能在那里运行",
    "dra-cpus": (
        "{what} 通过 DRA 给 Pod 分配 CPU[[（{devices:placed}）]]，而这个 kubelet 的 CPU 管理器（static）也分配 CPU："
        "同一个节点上二者互斥"
    ),
    "gap-no-limit": "没有设置 {resource} 限制",
    "gap-differs": "请求 {request} {resource}，限制却是 {limit}",
    "gaps": "{gaps:gaps}",
    # pieces
    "amount": "{amount:amount}",
    "lines": "{lines:lines}",
    "stories": "{kinds:stories}",
}


def named(resource: str) -> str:
    """A resource as people call it; what is typed stays as it is."""
    return {"cpu": "CPU", "memory": "内存"}.get(resource, resource)


def between(text: str) -> str:
    """A word among Chinese ones: Latin letters and digits stand apart from them."""
    before = " " if text[:1].isascii() else ""
    after = " " if text[-1:].isascii() else ""
    return f"{before}{text}{after}"


def _quantity(pair: tuple[str, int]) -> str:
    """A number with its measure word: `3 个`, `1.5 GiB`."""
    return bare(pair) if is_memory(pair[0]) else f"{bare(pair)} 个"


def _amount(pair: tuple[str, int]) -> str:
    """An amount with its name: `8 个 CPU`, `16 GiB 内存`, `2 个 nvidia.com/gpu`."""
    return f"{_quantity(pair)} {named(pair[0])}"


def _set(nodes: Sequence[int]) -> str:
    return "NUMA " + "+".join(map(str, nodes))


def _some(sets: Sequence[Sequence[int]]) -> str:
    shown = " 或 ".join(_set(nodes) for nodes in sets[:_MOST_SETS])
    return f"{shown} 等 {len(sets)} 种组合之一" if len(sets) > _MOST_SETS else shown or "没有 NUMA 节点"


def _placed(devices: Sequence[Mapping[str, Any]]) -> str:
    return "、".join(
        (f"NUMA {one['numa']} 上" if "numa" in one else "") + f" {one['count']} 个 {one['driver']} 设备"
        for one in devices
    ).strip()


def _each(names: Sequence[str]) -> str:
    return between("、".join(map(named, names)))


def _asking(parts: Sequence[Mapping[str, Any]]) -> str:
    asked = []
    for part in parts:
        amounts = [f"{_amount(new)}（原为 {_quantity(old)}）" for new, old in part["amounts"]]
        whose = "init 容器" if part["init"] else "容器"
        asked.append(f"{whose} {part['container']} 改为请求 {'、'.join(amounts)}")
    return "；".join(asked)


def _gaps(gaps: Sequence[Mapping[str, str]]) -> str:
    shown = "，".join(f"{gap['container']} {gap['missing']}" for gap in gaps[:_MOST_SETS])
    return f"{shown}……" if len(gaps) > _MOST_SETS else shown


def _stories(kinds: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        kind["node"]
        + (f"（以及同类的 {kind['count'] - 1} 个节点）" if kind["count"] > 1 else "")
        + f"：{'；'.join(why.removesuffix('。') for why in kind['why'])}。"
        for kind in kinds
    )


def _about(seconds: int) -> str:
    for unit, length in (("天", 86_400), ("小时", 3_600), ("分钟", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} 秒"


SPECS: Specs = {
    "quantity": _quantity,
    "amount": _amount,
    "amounts": lambda pairs: "、".join(_amount(pair) for pair in pairs),
    "set": _set,
    "some": _some,
    "placed": _placed,
    "each": _each,
    "apart": Each("{resource:among}只能放在 {on:some}", "，"),
    "lacking": Each("NUMA {numa} 可独占 {free:quantity}[[（差 {short:quantity}）]]", "，"),
    "also": lambda sentences: "".join(f"；{sentence}" for sentence in sentences),
    "asking": _asking,
    "gaps": _gaps,
    "stories": _stories,
    "lines": "\n".join,
    "list": lambda parts: "、".join(map(str, parts)),
    "these": lambda pods: f"Pod {'、'.join(pods)}",
    "own": {"cpu": " CPU", "memory": "内存"}.__getitem__,
    "threads": lambda number: f"{number} 个线程",
    "thousands": lambda number: f"{number:,}",
    "about": _about,
}
