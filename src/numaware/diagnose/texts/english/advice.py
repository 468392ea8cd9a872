"""Manifests that will not do what their author thinks, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "fractional-cpu-not-pinned": Text(
        "{who}: container {container} asks for {cpu} CPU and is not pinned",
        "The static CPU manager pins only whole CPUs. A container that asks for {cpu} runs on the shared CPUs of all "
        "NUMA nodes, and the Topology Manager gets no CPU hint for it.",
        (
            'ask for a whole number of CPUs:\nresources:\n  requests: {{cpu: "{whole}"}}\n  limits: {{cpu: "{whole}"}}',
        ),
    ),
    "not-guaranteed": Text(
        "{who} is {qos}: no container gets CPUs or memory of its own",
        "Only Guaranteed pods are pinned and aligned, and this one is {qos}[[: {missing}]].",
        ("give every container (init containers too) a cpu and a memory limit, and equal requests:\n{yaml}",),
    ),
    "init-larger-than-app": Text(
        "{who}: init container {init} asks for {initAmount} of {resource}, more than the {appAmount} of all that follows",
        "The init container is served first, and what it took is what the pod is bound to: the {resource} that the app "
        "containers do not take over stays taken until the pod ends, and may tie the pod to two NUMA nodes.",
        ("give the init container at most {appAmount} of {resource}",),
    ),
    "init-larger-than-app/shared": Text(
        "{who}: init container {init} asks for {initAmount} of {resource}, more than the {appAmount} of all that follows",
        "The scheduler keeps the larger of the two for as long as the pod lives: {initAmount} of {resource}, although "
        "only {appAmount} are asked for once the init container has ended.",
        ("give the init container at most {appAmount} of {resource}",),
    ),
    "never-fits": Text(
        "{who} fits no node[[ of {cluster}]], not even an empty one",
        "{story}",
        ("{remedy}", "or one of these; all were tried on the twin:\n{others}"),
    ),
}
