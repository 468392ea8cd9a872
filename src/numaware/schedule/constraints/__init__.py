"""What any scheduler must honour, as pure questions: may this pod go to this node, and if not, why.

Every answer is None, or the reason in the words of kube-scheduler, so that people find what they know. The order in
which kube-scheduler asks, and of whose refusals it reports the first: `static_reason`, `ports_reason`,
`capacity_reasons` (all of them), then `Neighbours`.
"""
