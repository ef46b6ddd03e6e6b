"""Fast ways and their plain twins: groups of nodes and kept results, and the search itself, against trying everything."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import device_building
from build import a_cluster, a_node
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from how_many import examples
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import PluginError
from mooring.model.devices import Device, ResourceClaim, ResourceSlice
from mooring.model.node import Node
from mooring.model.pod_spec import NodeSelector
from mooring.model.selectors import compile_node_selector
from mooring.plugins.devices.allocation import DeviceChoice
from mooring.plugins.devices.device_demand import DeviceFeatures, Fatal, read_demand
from mooring.plugins.devices.device_search import InvalidPools, search
from mooring.plugins.devices.device_search_cache import INVALID_POOLS, NO_CHOICE, DeviceSearchCache
from mooring.plugins.devices.node_groups import NodeGroup
from mooring.plugins.devices.pools import SliceView, gather_pools, view_of

pytestmark = pytest.mark.slow

FEATURES = DeviceFeatures()


looking = device_building.few_and_many_devices


# ---- groups and kept results


def seen_from(node: Node, slices: Sequence[ResourceSlice]) -> tuple[list[SliceView], frozenset[Any]]:
    """The slices that one node sees, and devices of theirs that are not for it: each asked for itself."""
    seen, hidden = [], set()
    for each in slices:
        view, spec = view_of(each), each.spec
        if spec.per_device_node_selection:
            out = [site.id for site in view.sites if not device_is_for(node, site.device)]
            if len(out) < len(view.sites):
                seen.append(view)
                hidden.update(out)
        elif spec.node_name == node.name or spec.all_nodes or selects(node, spec.node_selector):
            seen.append(view)
    return seen, frozenset(hidden)


def device_is_for(node: Node, device: Device) -> bool:
    if device.node_name:
        return device.node_name == node.name
    return bool(device.all_nodes) or selects(node, device.node_selector)


def selects(node: Node, selector: NodeSelector | None) -> bool:
    return selector is not None and compile_node_selector(selector).matches(node.name, node.labels)


def plain_code(cluster: Cluster, claims: Sequence[ResourceClaim], node: Node) -> int | str:
    """What a market without memory says of one node."""
    slices: Any = list(cluster.objects[ResourceSlice].values())
    whole: dict[Any, list[SliceView]] = {}
    for each in slices:
        whole.setdefault((each.spec.driver, each.spec.pool.name), []).append(view_of(each))
    seen, hidden = seen_from(node, slices)
    by_name = {view.slice.name: view for views in whole.values() for view in views}
    pools = gather_pools([by_name[view.slice.name] for view in seen], whole)
    classes: Any = cluster.objects[type(a_class())]
    try:
        choice = search(read_demand(claims, classes.get), NodeGroup(pools, hidden), cluster.claims, FEATURES)
    except InvalidPools:
        return INVALID_POOLS
    except Fatal as fault:
        return fault.describe(claims)
    return NO_CHOICE if choice is None else 0


NODES = [a_node(f"n{i}", labels={"zone": f"z{i % 2}"}) for i in range(4)]
CLAIMS = [
    a_claim("one"),
    a_claim("two", an_ask(2)),
    a_claim("all", an_ask(mode="All")),
    a_claim("big", an_ask(1, f'device.attributes["{DRIVER}"].size > 1')),
    a_claim("either", [an_ask(2, f'device.attributes["{DRIVER}"].size == 2'), an_ask()]),
    a_claim("same", an_ask(2), constraints=[{"matchAttribute": f"{DRIVER}/size"}]),
]


def zone(name: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}
    return {"nodeSelectorTerms": [term]}


def a_random_slice(random: Random) -> ResourceSlice:
    number = random.randrange(6)
    devices = [a_device(f"d{number}-{i}", size=random.randint(1, 2)) for i in range(random.randint(0, 3))]
    where: dict[str, Any] = random.choice(
        (
            {"node": f"n{random.randrange(4)}"},
            {"node": f"n{random.randrange(4)}"},
            {"allNodes": True},
            {"nodeSelector": zone(f"z{random.randrange(2)}")},
            {"perDeviceNodeSelection": True},
        )
    )
    if "perDeviceNodeSelection" in where:
        for device in devices:
            device |= random.choice(({"nodeName": "n1"}, {"allNodes": True}, {"nodeSelector": zone("z1")}))
    generation, count = random.choice((1, 1, 1, 2)), random.choice((1, 1, 1, 2))
    pool = where.get("node") or random.choice(("net", "lan"))
    return a_slice(f"s{number}", *devices, pool=pool, generation=generation, count=count, **where)


def disturb(random: Random, cluster: Cluster) -> None:
    """Something changes that results depend on."""
    act = random.randrange(6)
    slices: Any = list(cluster.objects[ResourceSlice].values())
    if act == 0:
        cluster.put(a_random_slice(random))
    elif act == 1 and slices:
        cluster.remove(ResourceSlice, random.choice(slices).key)
    elif act == 2:
        row = random.randrange(4)
        cluster.put(a_node(f"n{row}", labels={"zone": f"z{random.randrange(2)}"}))
    elif act == 3:
        cluster.claims.end(f"uid-held-{random.randrange(4)}")
    else:
        devices = [f"{s.spec.pool.name}/{d.name}" for s in slices for d in s.spec.devices or ()]
        name = f"held-{random.randrange(4)}"
        if devices and cluster.claims.get(f"default/{name}") is None:
            held = a_claim(name, status={"allocation": an_allocation(random.choice(devices))})
            cluster.claims.begin(held)


@settings(max_examples=examples(80), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_market_says_what_one_without_memory_says(seed: int) -> None:
    random = Random(seed)
    cluster = a_cluster(*NODES, a_class(), *(a_random_slice(random) for _ in range(4)))
    market = DeviceSearchCache(FEATURES, None)
    for _ in range(12):
        claims = random.sample(CLAIMS, random.randint(1, 2))
        rows = np.array(sorted(random.sample(range(4), random.randint(1, 4))), np.intp)
        nodes = [cluster.nodes.nodes[row] for row in rows]
        expected = [plain_code(cluster, claims, node) for node in nodes if node is not None]
        faults = [code for code in expected if isinstance(code, str)]
        if faults:
            with pytest.raises(PluginError) as told:
                market.codes(cluster, claims, rows)
            assert str(told.value) == faults[0]
        else:
            assert market.codes(cluster, claims, rows).tolist() == expected
        disturb(random, cluster)


# ---- the search


def picks(choice: DeviceChoice | None) -> list[list[tuple[str, str]]] | None:
    if choice is None:
        return None
    return [[(pick.ask.full_name, pick.site.id[2]) for pick in claim] for claim in choice.picks]


def every_choice(claims: Sequence[ResourceClaim], devices: Sequence[str]) -> Iterator[list[list[tuple[str, str]]]]:
    """All ways to serve the requests in the order in which they are tried, also those that give a device twice."""
    slots: list[list[tuple[int, str, tuple[str, ...]]]] = []
    for index, claim in enumerate(claims):
        for request in claim.spec.devices.requests or ():
            subs = request.first_available or ()
            asks = [(f"{request.name}/{sub.name}", sub.count) for sub in subs]
            if request.exactly is not None:
                asks = [(request.name, request.exactly.count)]
            slots.append([(index, name, some) for name, count in asks for some in combinations(devices, count)])
    for way in product(*slots):
        chosen: list[list[tuple[str, str]]] = [[] for _ in claims]
        for index, name, some in way:
            chosen[index] += [(name, device) for device in some]
        yield chosen


def first_choice(claims: Sequence[ResourceClaim], sizes: dict[str, int], taken: set[str]) -> Any:
    """The first way in which nothing is wrong."""
    for chosen in every_choice(claims, list(sizes)):
        used = [device for claim in chosen for _, device in claim]
        if len(set(used)) < len(used) or taken & set(used):
            continue
        if all(is_right(claim, some, sizes) for claim, some in zip(claims, chosen, strict=True)):
            return chosen
    return None


def is_right(claim: ResourceClaim, chosen: list[tuple[str, str]], sizes: dict[str, int]) -> bool:
    limits = {}
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            limits[request.name] = request.exactly.selectors
        for sub in request.first_available or ():
            limits[f"{request.name}/{sub.name}"] = sub.selectors
    if any(sizes[device] <= 1 for name, device in chosen if limits[name]):
        return False
    for constraint in claim.spec.devices.constraints or ():
        meant = [d for name, d in chosen if not constraint.requests or name.split("/")[0] in constraint.requests]
        count = len({sizes[device] for device in meant})
        if count > 1 if constraint.match_attribute is not None else count < len(meant):
            return False
    return True


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[ResourceClaim], dict[str, int], set[str]]:
    sizes = {f"d{i}": draw(st.integers(1, 3)) for i in range(draw(st.integers(0, 5)))}
    taken = set(draw(st.lists(st.sampled_from(sorted(sizes)), max_size=2))) if sizes else set()
    big = [f'device.attributes["{DRIVER}"].size > 1']
    ask = st.builds(lambda count, picky: an_ask(count, *(big if picky else ())), st.integers(1, 2), st.booleans())
    request = st.one_of(ask, st.lists(ask, min_size=1, max_size=2))
    constraint = st.sampled_from(
        (
            [],
            [{"matchAttribute": f"{DRIVER}/size"}],
            [{"matchAttribute": f"{DRIVER}/size", "requests": ["r0"]}],
            [{"distinctAttribute": f"{DRIVER}/size"}],
            [{"distinctAttribute": f"{DRIVER}/size", "requests": ["r0"]}],
        )
    )
    claims = [
        a_claim(f"c{i}", *draw(st.lists(request, min_size=1, max_size=2)), constraints=draw(constraint))
        for i in range(draw(st.integers(1, 2)))
    ]
    return claims, sizes, taken


@settings(max_examples=examples(200), deadline=None)
@given(problem=problems())
def test_the_search_finds_the_first_choice_there_is(
    problem: tuple[list[ResourceClaim], dict[str, int], set[str]],
) -> None:
    claims, sizes, taken = problem
    view = view_of(a_slice("s", *(a_device(name, size=size) for name, size in sizes.items()), node="n"))
    held = a_claim("held", status={"allocation": an_allocation(*(f"n/{name}" for name in taken))})
    ledger = ClaimLedger({})
    ledger.begin(held)
    group = NodeGroup(gather_pools([view], {view.pool: [view]}), frozenset())
    found = search(read_demand(claims, lambda name: a_class()), group, ledger, FEATURES)
    assert picks(found) == first_choice(claims, sizes, taken)


# ---- counters and compatibility groups (v1.37, 17.6)

Partition = tuple[int, frozenset[str]]
"""How much a device takes of the one counter, and its compatibility groups."""


def can_be_together(devices: Sequence[Partition], total: int) -> bool:
    """Whether devices may take from one counter set at the same time: each is compared with all others."""
    groups = [each for _, each in devices]
    is_compatible = not any(groups) or bool(frozenset.intersection(*groups))
    return sum(amount for amount, _ in devices) <= total and is_compatible


def first_partitions(
    devices: Sequence[Partition], held: Sequence[int], counts: Sequence[int], total: int
) -> list[list[int]] | None:
    """The first choice of devices for claims that ask for so many each, beside those that a claim holds."""
    for way in product(*(combinations(range(len(devices)), count) for count in counts)):
        used = [*held, *(i for some in way for i in some)]
        if len({*used}) == len(used) and can_be_together([devices[i] for i in used], total):
            return [list(some) for some in way]
    return None


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Partition], list[int], int]:
    """Devices of one counter set, those that a claim holds, which can be together, and how much the counter has."""
    groups = st.frozensets(st.sampled_from("abc"), max_size=2)
    devices = draw(st.lists(st.tuples(st.integers(1, 2), groups), min_size=1, max_size=5))
    total = draw(st.integers(1, 6))
    held = sorted(draw(st.sets(st.integers(0, len(devices) - 1), max_size=2)))
    return devices, held if can_be_together([devices[i] for i in held], total) else [], total


@settings(max_examples=examples(200), deadline=None)
@given(problem=partitions(), counts=st.lists(st.integers(1, 2), min_size=1, max_size=2))
def test_the_search_finds_the_first_partitions_that_can_be_together(
    problem: tuple[list[Partition], list[int], int], counts: list[int]
) -> None:
    devices, held, total = problem
    made = []
    for i, (amount, groups) in enumerate(devices):
        counters = {"c": {"value": str(amount)}}
        consumed = {"counterSet": "x", "counters": counters, "compatibilityGroups": sorted(groups)}
        made.append(a_device(f"d{i}", consumesCounters=[consumed]))
    sets = [{"name": "x", "counters": {"c": {"value": str(total)}}}]
    views = [
        view_of(a_slice("s", *made, node="n", count=2)),
        view_of(a_slice("t", node="n", count=2, sharedCounters=sets)),
    ]
    ledger = ClaimLedger({})
    ledger.begin(a_claim("held", status={"allocation": an_allocation(*(f"n/d{i}" for i in held))}))
    features = DeviceFeatures(compatibility_groups=True)
    group = NodeGroup(gather_pools(views, {views[0].pool: views}, features), frozenset())
    claims = [a_claim(f"c{i}", an_ask(count)) for i, count in enumerate(counts)]
    found = search(read_demand(claims, lambda name: a_class()), group, ledger, features)
    expected = first_partitions(devices, held, counts, total)
    assert picks(found) == (None if expected is None else [[("r0", f"d{i}") for i in some] for some in expected])
