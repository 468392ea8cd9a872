"""What any scheduler must honour, as pure questions: may this pod go to this node, and if not, why.

Every answer is None, or the reason in the words of kube-scheduler, so that people find what they know. The order in
which kube-scheduler asks, and of whose refusals it reports the first: `static_reason`, `ports_reason`,
`capacity_reasons` (all of them), then `Neighbours`.
"""

from numaware.schedule.constraints.neighbours import Neighbours
from numaware.schedule.constraints.node_rules import static_reason
from numaware.schedule.constraints.preference import neighbour_scores, node_affinity_scores, taint_scores
from numaware.schedule.constraints.question import Question
from numaware.schedule.constraints.resources import capacity_reasons, ports_reason
from numaware.schedule.constraints.unjudged import cannot_judge
from numaware.schedule.constraints.volcano import volcano_reason

__all__ = [
    "Neighbours",
    "Question",
    "cannot_judge",
    "capacity_reasons",
    "neighbour_scores",
    "node_affinity_scores",
    "ports_reason",
    "static_reason",
    "taint_scores",
    "volcano_reason",
]
