"""Which paths the API has, what each takes and gives, and who answers: `/api/v1/…`, openFuyao's aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from numaware.serve.console import policies as switching
from numaware.serve.console.api.diagnose import Diagnosis
from numaware.serve.console.api.operations import Handler, Nothing, Operation
from numaware.serve.console.api.queries import (
    AtQuery,
    DiagnoseQuery,
    EventPage,
    EventQuery,
    ExplainQuery,
    Health,
    HistoryQuery,
    MonitorQuery,
    NodePage,
    NodeQuery,
    PodPage,
    PodQuery,
    Question,
    Room,
    ShapeQuery,
    Wall,
)
from numaware.serve.console.api.routes import Console
from numaware.serve.console.api.simulation import Simulation, Simulations, SimulationWish
from numaware.serve.console.api.stream import Changed
from numaware.serve.console.history.api import Kept, Refusals
from numaware.serve.console.orders import CommandWish, Orders, OrderWish
from numaware.serve.console.views.explain import Explained
from numaware.serve.console.views.node import NodeView
from numaware.serve.console.views.pods import PodView
from numaware.serve.console.views.recorder import Series
from numaware.serve.console.views.traffic import NodeTraffic, Traffic
from numaware.serve.console.views.wall_model import Numbers
from numaware.serve.console.views.whatif import WhatIf

_V1 = "/api/v1"


def operations(console: Console) -> Sequence[Operation]:
    """The whole API but openFuyao's; see `app.operations_of`."""

    def get(
        path: str, summary: str, handler: Handler, gives: Any, query: type[msgspec.Struct] = AtQuery
    ) -> Operation:
        return Operation("GET", f"{_V1}/{path}", summary, handler, gives, query, missing=(404,))

    def post(path: str, summary: str, handler: Handler, gives: Any, **more: Any) -> Operation:
        return Operation("POST", f"{_V1}/{path}", summary, handler, gives, **more)

    asked: dict[str, Any] = {"query": AtQuery, "body": Question, "missing": (404,)}
    listen = "What happened; a stream of changes for text/event-stream"
    evidence = "What logs, states, configurations and manifests tell"
    switch = "Move a switch, or see what that would change"
    pool = "What another kubelet policy would mean for a pool"
    order = "Order a kubelet policy for a pool"
    command = "Hold an order to kubelets, go on with it, or call it back"
    kept = "What is kept of the past, and when something changed"
    recorded = "What was recorded of the cluster and of a node"
    room = "How many more pods of a shape would be admitted"
    why = "Why a node would take or refuse a pod"
    compare = "Compare schedulers on these machines"
    upload = "application/octet-stream"
    talk = "How much pods say across NUMA nodes, and which were moved"
    return (
        Operation("GET", "/healthz", "Whether the process answers", console.healthz, Health, tag="process"),
        get("cluster", "The headline numbers for a shape of pod", console.cluster, Numbers, ShapeQuery),
        get("wall", "All nodes, packed, with their verdict on a shape", console.wall, Wall, ShapeQuery),
        get("nodes", "Nodes, page by page", console.nodes, NodePage, NodeQuery),
        get("nodes/{name}", "One node in full", console.node, NodeView),
        get("pods", "Pods, page by page", console.pods, PodPage, PodQuery),
        get("pods/{namespace}/{name}", "One pod in full", console.pod, PodView),
        get("explain", why, console.explain_get, Explained, ExplainQuery),
        post("explain", "The same for a manifest", console.explain_post, Explained, **asked),
        post("whatif", "What every node says to a pod", console.whatif, WhatIf, **asked),
        get("headroom", room, console.headroom, Room, ShapeQuery),
        get("events", listen, console.events, EventPage, EventQuery)._replace(streams=Changed),
        get("monitoring", recorded, console.monitoring, Series, MonitorQuery),
        get("history", kept, console.kept, Kept, HistoryQuery),
        get("history/refusals", "When kubelets refused", console.refusals, Refusals, Nothing),
        get("traffic", talk, console.traffic, Traffic, Nothing)._replace(missing=()),
        get("traffic/{name}", "Who talks to whom on a node", console.node_traffic, NodeTraffic, Nothing),
        get("policies", "Switches, pools and history", console.policies, switching.Policies),
        post(
            "policies/{id}", switch, console.switch, switching.SwitchAnswer, body=switching.SwitchWish
        )._replace(method="PUT", missing=(404, 409)),
        post("policies/kubelet", pool, console.try_policy, switching.PolicyAnswer, body=switching.PolicyWish),
        post("policies/orders", order, console.order_pool, Orders, body=OrderWish, missing=(409,)),
        post("policies/orders/{name}", command, console.command, Orders, body=CommandWish)._replace(
            method="PUT", missing=(404, 409)
        ),
        post("diagnose", evidence, console.diagnose, Diagnosis, query=DiagnoseQuery, raw=upload),
        get(
            "simulate",
            "Comparisons of schedulers, the latest first",
            console.simulations,
            Simulations,
            Nothing,
        )._replace(missing=()),
        post("simulate", compare, console.simulate, Simulation, body=SimulationWish),
        get("simulate/{id}", "One comparison", console.simulation, Simulation, Nothing),
    )
