"""What any scheduler must honour, as pure questions: may this pod go to this node, and if not, why.

Every answer is None or a `Reason`. The order in which kube-scheduler asks, and of whose refusals it reports the first:
`static_reason`, ports (`beside_reason`), `capacity_reasons` (all of them), volumes (`volume_rules`), then other pods.
"""

from numaware.schedule.filters.gates_and_claims import GATED, dra_reason, waiting_reason
from numaware.schedule.filters.inter_pod import InterPodRules, beside_reason
from numaware.schedule.filters.node_resources import capacity_reasons
from numaware.schedule.filters.placed_pods import PlacedPods
from numaware.schedule.filters.soft_spread import SoftSpread
from numaware.schedule.filters.taints_and_affinity import static_reason
from numaware.schedule.filters.volcano import volcano_reason
from numaware.schedule.filters.volumes import VolumeRules, volume_rules

__all__ = [
    "GATED",
    "InterPodRules",
    "PlacedPods",
    "SoftSpread",
    "VolumeRules",
    "beside_reason",
    "capacity_reasons",
    "dra_reason",
    "static_reason",
    "volcano_reason",
    "volume_rules",
    "waiting_reason",
]
