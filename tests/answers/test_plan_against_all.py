"""Plans of small clusters against all nodes that could be added instead, each tried in a simulation."""

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan import ZONE, added, place_all, steps_of

from build import a_node, a_pod
from how_many import examples
from mooring.answers.plan.judge import patient
from mooring.answers.plan.offers import NodeOffer, read_offers
from mooring.answers.plan.plan import plan
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

HOSTNAME = "kubernetes.io/hostname"
MOST = 2
"""How many nodes of each offer there are."""


def required(kind: str, key: str, app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": "w"}}}]}


RULES: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {ZONE: "a"}},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    required("podAntiAffinity", HOSTNAME, "w"),
    required("podAffinity", ZONE, "w"),
    spread(ZONE),
    spread(HOSTNAME),
]


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    found = []
    for group in range(draw(st.integers(1, 3))):
        rule = draw(st.sampled_from(RULES))
        cpu, app = draw(st.sampled_from(["1", "2", "3"])), draw(st.sampled_from(["w", "v"]))
        for i in range(draw(st.integers(1, 3))):
            name = f"p{group}-{i}"
            found.append(a_pod(name, cpu=cpu, labels={"app": app}, schedulerName="default-scheduler", **rule))
    return found


@st.composite
def clusters(draw: st.DrawFn) -> LoadedCluster:
    """A node for each of some zones, with a pod that runs there, and pods that are pending."""
    items: list[KubeObject] = []
    for zone in draw(st.sampled_from(["", "a", "ab"])):
        name = f"n-{zone}"
        cpu = draw(st.sampled_from(["1", "3"]))
        items.append(a_node(name, cpu=cpu, labels={ZONE: zone, HOSTNAME: name}))
        if draw(st.booleans()):
            items.append(a_pod(f"r-{zone}", cpu="1", labels={"app": "w"}, nodeName=name))
    return LoadedCluster([*items, *draw(pods())], configuration.default())


@st.composite
def offers(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for zone in "ab":
        taints = draw(st.sampled_from([[], [], [{"key": "dedicated", "effect": "NoSchedule"}]]))
        amounts = {"cpu": draw(st.sampled_from(["2", "4", "5"])), "memory": "64Gi", "pods": "110"}
        node = {"metadata": {"labels": {ZONE: zone}}, "spec": {"taints": taints}, "status": {"allocatable": amounts}}
        price = draw(st.sampled_from([0.5, 1.0, 1.7, 3.0]))
        found.append({"name": zone, "price": price, "limit": MOST, "node": node})
    return found


def all_nodes(chosen: list[NodeOffer], numbers: tuple[int, ...]) -> list[KubeObject]:
    return [
        item
        for offer, number in zip(chosen, numbers, strict=True)
        for i in range(number)
        for item in offer.node(f"{offer.name}-{i + 1}")
    ]


def fails_in_an_order(
    waiting: LoadedCluster, chosen: list[NodeOffer], numbers: tuple[int, ...], left: set[str]
) -> bool:
    """Whether more pods are left in a shuffle of the pods and of ties, with the nodes at once or one by one."""
    nodes = all_nodes(chosen, numbers)
    others = [item for item in waiting.objects if not isinstance(item, Pod)]
    for seed in range(40):
        chance = Random(seed)
        shuffled = [item for item in waiting.objects if isinstance(item, Pod)]
        chance.shuffle(shuffled)
        steps = [[each] for each in chance.sample(nodes, len(nodes))] if seed % 2 else [nodes]
        if len(place_all(replace(waiting, objects=[*others, *shuffled], ties=seed), *steps)) > len(left):
            return True
    return False


@settings(max_examples=examples(14), deadline=None)
@given(loaded=clusters(), offered=offers(), at_once=st.booleans())
def test_a_plan_places_what_any_nodes_could_and_none_are_below_the_bound(
    loaded: LoadedCluster, offered: list[dict[str, Any]], at_once: bool
) -> None:
    answer = plan(loaded, offered, at_once=at_once)
    waiting, chosen = patient(loaded), read_offers(offered, loaded)
    steps = steps_of(answer)
    assert place_all(waiting, *steps) == set(answer.pending)
    assert len(place_all(waiting, [item for step in steps for item in step])) == answer.pending_at_once
    assert all(number <= MOST for number in added(answer).values())
    assert not at_once or answer.steps <= 1
    assert answer.placed_now + sum(each.pods for each in answer.added) + len(answer.pending) <= answer.at_first
    assert answer.cost >= answer.lower_bound - 1e-9
    for numbers in product(range(MOST + 1), repeat=len(chosen)):
        cost = sum(number * offer.price for number, offer in zip(numbers, chosen, strict=True))
        left = place_all(waiting, all_nodes(chosen, numbers))
        assert len(left) >= len(answer.pending), numbers
        # Nodes that cost less may do in the order of the cluster: the plan holds in others as well.
        is_cheaper = len(left) == len(answer.pending) and cost < answer.cost - 1e-9
        assert not is_cheaper or answer.orders_held < answer.orders or fails_in_an_order(waiting, chosen, numbers, left)
        assert left != set(answer.pending) or cost >= answer.lower_bound - 1e-9
