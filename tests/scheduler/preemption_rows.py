"""Rows of upstream's integration tests of preemption by and of pod groups and composite groups (v1.37, 12.4, 14 and 15).

Each row has nodes with CPUs, groups, pods that run, and pods that come; it says who leaves and who has a node at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = "kubernetes.io/hostname"
ALL: dict[str, Any] = {"disruptionMode": {"all": {}}}
SINGLE: dict[str, Any] = {"disruptionMode": {"single": {}}}
NEVER: dict[str, Any] = {"preemptionPolicy": "Never"}
LOWER: dict[str, Any] = {"preemptionPolicy": "PreemptLowerPriority"}
BY_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
POLICY = {"PodGroupPreemptionPolicy": True}

Tree = dict[str, tuple[int | None, str | None, int, dict[str, Any]]]
"""Name -> minimum, parent, priority and other fields of a group."""


@dataclass
class Row:
    """Pods are written `name cpu priority group node`; `-` is no group. Those of `leave` are evicted, and at the end
    exactly the pods of `placed` and those that did not leave have a node."""

    nodes: dict[str, str]
    trees: Tree
    groups: Tree
    run: list[str]
    come: list[str]
    leave: set[str]
    placed: set[str]
    more: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Fields of some pods; `come` is for all that come, and `run` for all that run."""
    gates: dict[str, bool] = field(default_factory=dict)
    prefer: dict[str, int] = field(default_factory=dict)
    """The score of nodes, if it matters."""
    slots: int | None = None
    """How many pods can hold a place that a Reserve plugin gives out."""
    lost: str = ""
    """This composite group is deleted before the pods come."""


def on_host(name: str) -> dict[str, Any]:
    return {"nodeSelector": {HOST: name}}


def an_even_spread() -> dict[str, Any]:
    """At most two pods of the app on a node: ten domains are wanted, so the smallest count is 0."""
    rule = {"maxSkew": 2, "minDomains": 10, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "foo"}}}]
    return {"labels": {"app": "foo"}, "topologySpreadConstraints": spread, **on_host("n1")}


TERM = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": HOST}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
APP = {"labels": {"app": "foo"}}
TWO_BY_TWO = {"n1": "2", "n2": "2"}
THREE_LOW = ["low-1 1 10", "low-2 1 10", "low-3 1 10"]
THREE_HIGH = ["high-1 1 100 pg1", "high-2 1 100 pg1", "high-3 1 100 pg1"]
LOWS, HIGHS = {"low-1", "low-2", "low-3"}, {"high-1", "high-2", "high-3"}
SPREAD_OUT = ["low-1 1 10 pg1 n1", "low-2 1 10 pg1 n2", "low-3 1 10 pg2 n2"]
LOW_LEAVES: Tree = {"pg1": (2, "root", 10, {}), "pg2": (1, "root", 10, {})}
HIGH_TREE: Tree = {"root": (None, None, 100, {})}
HIGH_GANG: Tree = {"pg1": (3, "root", 100, {})}
PAIR: Tree = {"pg": (2, "root", 100, {})}
RACKS = {"r1-1": "1", "r1-2": "1", "r2-1": "1", "r2-2": "1"}
RACKED: Tree = {"pg": (2, None, 100, BY_RACK)}
LOW_AND_MID = (("low", 10), ("mid", 50))
TWO_HIGH = ["high-1 1 100 pg", "high-2 1 100 pg"]


def a_policy(value: str) -> tuple[Tree, Tree]:
    policy = {"preemptionPolicy": value}
    return {"root": (None, None, 100, policy)}, {
        "pg1": (2, "root", 100, policy),
        "pg2": (1, "root", 100, policy),
    }


TREES = {
    "a tree evicts as few as its preferred nodes allow": Row(
        TWO_BY_TWO,
        HIGH_TREE,
        HIGH_GANG,
        ["low-1 2 10 - n1", "low-2 1 10 - n2"],
        THREE_HIGH,
        {"low-1"},
        HIGHS,
        gates=POLICY,
        prefer={"n1": 100, "n2": 0},
    ),
    "a tree that leaves as one leaves from all nodes": Row(
        TWO_BY_TWO,
        {"root": (None, None, 10, ALL)},
        LOW_LEAVES,
        SPREAD_OUT,
        ["high 2 100"],
        LOWS,
        {"high"},
        {"come": on_host("n1")},
    ),
    "pods of a tree without units leave one by one": Row(
        TWO_BY_TWO,
        {"root": (None, None, 10, SINGLE)},
        {"pg1": (2, "root", 10, SINGLE), "pg2": (1, "root", 10, SINGLE)},
        SPREAD_OUT,
        ["high 2 100"],
        {"low-1"},
        {"high"},
        {"come": on_host("n1")},
    ),
    "no pod of a tree leaves in vain": Row(
        {"n1": "2"}, {"root": (None, None, 10, {})}, LOW_LEAVES, ["low 1 10 pg2 n1"], ["high 3 100"], set(), set()
    ),
    "of equal priority, a group leaves before a composite group": Row(
        {"n1": "2"},
        {"root": (None, None, 10, ALL)},
        {"alone": (1, None, 10, {}), "child": (1, "root", 10, {}), "pg": (1, None, 100, {})},
        ["low-alone 1 10 alone n1", "low-child 1 10 child n1"],
        ["high 1 100 pg"],
        {"low-alone"},
        {"high"},
    ),
    "the tree of lower priority leaves": Row(
        {"n1": "3"},
        {"lower": (None, None, 10, {}), "higher": (None, None, 20, {})},
        {"pg-lower": (1, "lower", 10, {}), "pg-higher": (1, "higher", 20, {})},
        ["lower 1 10 pg-lower n1", "higher 1 20 pg-higher n1"],
        ["high 2 100"],
        {"lower"},
        {"high"},
    ),
    "a budget protects a tree that leaves as one": Row(
        {"n1": "3"},
        {"kept": (None, None, 10, ALL), "free": (None, None, 10, ALL)},
        {"pg-kept": (2, "kept", 10, {}), "pg-free": (1, "free", 10, {})},
        ["kept-1 1 10 pg-kept n1", "kept-2 1 10 pg-kept n1", "free 1 10 pg-free n1"],
        ["high 1 100"],
        {"free"},
        {"high"},
        {"kept-1": APP, "kept-2": APP},
    ),
    "a budget protects the pods of one leaf": Row(
        {"n1": "3"},
        {"root": (None, None, 10, SINGLE)},
        {"pg-kept": (2, "root", 10, SINGLE), "pg-free": (1, "root", 10, SINGLE)},
        ["kept-1 1 10 pg-kept n1", "kept-2 1 10 pg-kept n1", "free 1 10 pg-free n1"],
        ["high 1 100"],
        {"free"},
        {"high"},
        {"kept-1": APP, "kept-2": APP},
    ),
    "the mode of the topmost group counts": Row(
        TWO_BY_TWO,
        {"top": (None, None, 10, ALL), "mid": (None, "top", 10, SINGLE)},
        {"pg1": (2, "mid", 10, SINGLE), "pg2": (1, "mid", 10, SINGLE)},
        SPREAD_OUT,
        ["high 2 100"],
        LOWS,
        {"high"},
        {"come": on_host("n1")},
    ),
    "a group in the middle leaves as one, its uncle stays": Row(
        TWO_BY_TWO,
        {"top": (None, None, 10, SINGLE), "mid": (None, "top", 10, ALL)},
        {"pg1": (2, "mid", 10, SINGLE), "pg2": (1, "top", 10, SINGLE)},
        SPREAD_OUT,
        ["high 2 100"],
        {"low-1", "low-2"},
        {"high"},
        {"come": on_host("n1")},
    ),
    "a tree without a policy preempts": Row(
        {"n1": "3"}, HIGH_TREE, HIGH_GANG, THREE_LOW, THREE_HIGH, LOWS, HIGHS, gates=POLICY
    ),
    "a tree that must not preempt": Row(
        {"n1": "3"},
        *a_policy("Never"),
        THREE_LOW,
        [*THREE_HIGH[:2], "high-3 1 100 pg2"],
        set(),
        set(),
        {"come": NEVER},
        POLICY,
    ),
    "a tree that may preempt": Row(
        {"n1": "3"},
        *a_policy("PreemptLowerPriority"),
        THREE_LOW,
        [*THREE_HIGH[:2], "high-3 1 100 pg2"],
        LOWS,
        HIGHS,
        {"come": LOWER},
        POLICY,
    ),
    "without the gate the policy of the pods counts": Row(
        {"n1": "3"}, HIGH_TREE, HIGH_GANG, THREE_LOW, THREE_HIGH, set(), set(), {"come": NEVER}
    ),
    "a tree evicts a pod beside which its members cannot be": Row(
        TWO_BY_TWO,
        HIGH_TREE,
        PAIR,
        ["initial 250m 10 - n1"],
        ["high-1 1500m 100 pg", "high-2 1500m 100 pg"],
        {"initial"},
        {"high-1", "high-2"},
        {"initial": APP, "come": APART},
    ),
    "a tree evicts a pod that has a port of its members": Row(
        TWO_BY_TWO,
        HIGH_TREE,
        PAIR,
        ["initial 0 10 - n1"],
        ["high-1 0 100 pg", "high-2 0 100 pg"],
        {"initial"},
        {"high-1", "high-2"},
        {"run": {"host_ports": (8080,)}, "come": {"host_ports": (8080,)}},
    ),
    "what a Reserve plugin refuses the second member is found before any pod leaves": Row(
        {"n1": "2"},
        {"low": (None, None, 10, {}), **HIGH_TREE},
        {"pg-low": (2, "low", 10, {}), **PAIR},
        ["low-1 1 10 pg-low n1", "low-2 1 10 pg-low n1"],
        TWO_HIGH,
        set(),
        set(),
        slots=1,
    ),
    "a tree that fits in part waits for all of it": Row(
        TWO_BY_TWO,
        {"low": (1, None, 10, {}), "root": (1, None, 100, {})},
        {"pg-low": (2, "low", 10, {}), "pg": (4, "root", 100, {})},
        ["low-1 1 10 pg-low n1", "low-2 1 10 pg-low n2"],
        [f"high-{i} 1 100 pg" for i in range(1, 5)],
        {"low-1", "low-2"},
        {f"high-{i}" for i in range(1, 5)},
    ),
    "a leaf whose parent is gone can be evicted": Row(
        {"n1": "2"},
        {"low": (None, None, 10, {}), **HIGH_TREE},
        {"pg-low": (2, "low", 10, {}), **PAIR},
        ["low-1 1 10 pg-low n1", "low-2 1 10 pg-low n1"],
        TWO_HIGH,
        {"low-1", "low-2"},
        {"high-1", "high-2"},
        lost="low",
    ),
}

GROUPS = {
    "a group on one node leaves as one for a pod": Row(
        {"n1": "500m"},
        {},
        {"low": (None, None, 10, ALL)},
        ["low-1 200m 10 low n1", "low-2 200m 10 low n1"],
        ["high 300m 100"],
        {"low-1", "low-2"},
        {"high"},
    ),
    "of two groups that leave as one, the less important leaves from all nodes": Row(
        {"n1": "500m", "n2": "500m"},
        {},
        {"low": (None, None, 10, ALL), "mid": (None, None, 50, ALL)},
        [f"{name}-{node} 200m {priority} {name} {node}" for name, priority in LOW_AND_MID for node in ("n1", "n2")],
        ["high 300m 100"],
        {"low-n1", "low-n2"},
        {"high"},
        {"come": on_host("n1")},
    ),
    "no group leaves in vain": Row(
        {"n1": "1"},
        {},
        {"low": (None, None, 10, ALL)},
        ["equal 500m 100 - n1", "low-1 150m 10 low n1", "low-2 150m 10 low n1"],
        ["high 600m 100"],
        set(),
        set(),
    ),
    "a basic group evicts on the node that it prefers, not the least important pod": Row(
        TWO_BY_TWO,
        {},
        {"pg1": (None, None, 100, {})},
        ["low 1 10 - n1", "very-low 1 5 - n2"],
        THREE_HIGH,
        {"low"},
        HIGHS,
        prefer={"n1": 100, "n2": 0},
    ),
    "a basic group evicts what it can": Row(
        {f"n{i}": "1" for i in range(1, 5)},
        {},
        {"pg1": (None, None, 100, {})},
        ["p1 1 10 - n1", "p2 1 10 - n2", "p3 1 200 - n3", "p4 1 200 - n4"],
        THREE_HIGH,
        {"p1", "p2"},
        {"high-1", "high-2"},
    ),
    "a whole group of lower priority leaves beside a pod": Row(
        {"n1": "1", "n2": "1", "n3": "1"},
        {},
        {"low": (1, None, 50, ALL), "pg1": (3, None, 100, {})},
        ["v1 1 50 low n1", "v2 1 50 low n2", "v3 1 10 - n3"],
        THREE_HIGH,
        {"v1", "v2", "v3"},
        HIGHS,
    ),
    "the more important of two pods comes back": Row(
        TWO_BY_TWO,
        {},
        {"pg": (2, None, 100, {})},
        ["less 1 5 - n1", "more 1 10 - n1"],
        TWO_HIGH,
        {"less"},
        {"high-1", "high-2"},
        {"high-1": on_host("n1"), "high-2": on_host("n2")},
    ),
    "requests of whole pods count": Row(
        TWO_BY_TWO,
        {},
        {"pg": (2, None, 100, {})},
        ["initial 0 10 - n1"],
        ["high-1 0 100 pg", "high-2 0 100 pg"],
        {"initial"},
        {"high-1", "high-2"},
        {
            "initial": {**APP, "resources": {"requests": {"cpu": "2"}}},
            "come": {"resources": {"requests": {"cpu": "2"}}, **APART},
        },
    ),
    "a pod that makes the spread uneven leaves": Row(
        {"n1": "16", "n2": "16"},
        {},
        {"pg": (2, None, 100, {})},
        ["initial 1 10 - n1"],
        TWO_HIGH,
        {"initial"},
        {"high-1", "high-2"},
        {"initial": APP, "come": an_even_spread()},
    ),
    "a pod of the spread on another node comes back": Row(
        {"n1": "16", "n2": "16"},
        {},
        {"pg": (2, None, 100, {})},
        ["initial 1 10 - n1", "elsewhere 1 5 - n2"],
        TWO_HIGH,
        {"initial"},
        {"high-1", "high-2"},
        {"initial": APP, "elsewhere": APP, "come": an_even_spread()},
    ),
    "what a Reserve plugin refuses decides who leaves": Row(
        {"n1": "3"},
        {},
        {"pg": (2, None, 100, {})},
        ["taken 1 15 - n1", "other 1 10 - n1"],
        TWO_HIGH,
        {"taken"},
        {"high-1", "high-2"},
        {"taken": {"labels": {"slot": "taken"}}},
        slots=2,
    ),
    "all pods of the only rack leave": Row(
        {"r1-1": "1", "r1-2": "1"},
        {},
        RACKED,
        ["low-1 1 10 - r1-1", "low-2 1 10 - r1-2"],
        TWO_HIGH,
        {"low-1", "low-2"},
        {"high-1", "high-2"},
    ),
    "pods leave in the rack without more important ones": Row(
        RACKS,
        {},
        RACKED,
        ["low-1 1 10 - r1-1", "low-2 1 10 - r1-2", "top-1 1 200 - r2-1", "top-2 1 200 - r2-2"],
        TWO_HIGH,
        {"low-1", "low-2"},
        {"high-1", "high-2"},
    ),
    "pods leave in the rack with the higher score": Row(
        RACKS,
        {},
        RACKED,
        ["low-1 1 10 - r1-1", "low-2 1 10 - r1-2", "low-3 1 10 - r2-1", "low-4 1 10 - r2-2"],
        TWO_HIGH,
        {"low-3", "low-4"},
        {"high-1", "high-2"},
        prefer={"r2-1": 100, "r2-2": 100},
    ),
    "no pod leaves if no rack can be freed": Row(
        RACKS,
        {},
        RACKED,
        ["low-1 1 10 - r1-1", "top-1 1 200 - r1-2", "low-2 1 10 - r2-1", "top-2 1 200 - r2-2"],
        TWO_HIGH,
        set(),
        set(),
    ),
}
