"""What searches find for claims, kept from one question to the next: what is searched again, and what is not."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import OutOfEffort, PluginError
from mooring.model.devices import ResourceClaim
from mooring.plugins.devices import device_search, device_search_cache
from mooring.plugins.devices.allocation import DeviceChoice
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.device_search_cache import INVALID_POOLS, NO_CHOICE, DeviceSearchCache
from mooring.plugins.devices.effort import Effort, TookTooLong
from mooring.plugins.devices.node_groups import NodeGroup

NODES = ("a", "b", "c")
ROWS = np.arange(3, dtype=np.intp)
OWN = f'device.attributes["{DRIVER}"]'
H100 = f'{OWN}.model == "h100"'


def a_world(*more: Any) -> Cluster:
    """Two devices on node a, one on b, none on c."""
    slices = (a_slice("a", a_device("d0"), a_device("d1"), node="a"), a_slice("b", a_device("d0"), node="b"))
    return a_cluster(*map(a_node, NODES), a_class(), *slices, *more)


class Asking:
    """Searches that tell which nodes were searched for an answer."""

    def __init__(self, cluster: Cluster | None = None, max_steps: int | None = None) -> None:
        self.cluster = cluster or a_world()
        self.now_ns = 0
        self.searches = DeviceSearchCache(DeviceFeatures(), max_steps, lambda: self.now_ns)
        self.searched: list[str] = []

    def codes(self, *claims: ResourceClaim, rows: Any = ROWS) -> list[int]:
        return self.searches.codes(self.cluster, claims, rows).tolist()  # type: ignore[no-any-return]

    def taken(self) -> list[str]:
        """The nodes that were searched since the last question, each by its first pool."""
        found, self.searched = self.searched, []
        return found


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    made = Asking()
    search = device_search.search

    def counted(demand: Any, group: NodeGroup, *rest: Any) -> Any:
        made.searched.append(group.pools[0].id[1] if group.pools else "none")
        return search(demand, group, *rest)

    monkeypatch.setattr(device_search_cache, "search", counted)
    yield made


# ---- what is searched


def test_claims_that_ask_for_the_same_are_searched_for_once(asking: Asking) -> None:
    assert asking.codes(a_claim("c", an_ask(2))) == [0, NO_CHOICE, NO_CHOICE]
    assert asking.taken() == ["a", "b", "none"]
    assert asking.codes(a_claim("d", an_ask(2), metadata={"namespace": "other"})) == [0, NO_CHOICE, NO_CHOICE]
    assert asking.taken() == []
    assert asking.codes(a_claim("c")) == [0, 0, NO_CHOICE]
    assert asking.codes(a_claim("c"), a_claim("d")) == [0, NO_CHOICE, NO_CHOICE]
    assert asking.taken() == ["a", "b", "none"] * 2


def test_only_nodes_that_are_asked_about_are_searched(asking: Asking) -> None:
    assert asking.codes(a_claim("c"), rows=np.array([1], np.intp)) == [0]
    assert asking.taken() == ["b"]
    assert asking.codes(a_claim("c")) == [0, 0, NO_CHOICE]
    assert asking.taken() == ["a", "none"]


def test_only_nodes_that_see_a_pool_whose_devices_changed_hands_are_searched_again(asking: Asking) -> None:
    asking.codes(a_claim("c"))
    asking.taken()
    asking.cluster.put(a_claim("used", status={"allocation": an_allocation("b/d0")}))
    assert asking.codes(a_claim("c")) == [0, NO_CHOICE, NO_CHOICE]
    assert asking.taken() == ["b"]
    asking.cluster.put(a_claim("used"))
    assert asking.codes(a_claim("c")) == [0, 0, NO_CHOICE]
    assert asking.taken() == ["b"]
    asking.cluster.put(a_claim("far", status={"allocation": an_allocation("elsewhere/d0")}))
    assert asking.codes(a_claim("c")) == [0, 0, NO_CHOICE]
    assert asking.taken() == []


def test_only_nodes_whose_slices_changed_are_searched_again(asking: Asking) -> None:
    asking.codes(a_claim("c"))
    asking.taken()
    asking.cluster.put(a_slice("c", a_device("d0"), node="c"))
    assert asking.codes(a_claim("c")) == [0, 0, 0]
    assert asking.taken() == ["c"]
    asking.cluster.put(a_node("d"))
    assert asking.codes(a_claim("c"), rows=np.arange(4)) == [0, 0, 0, NO_CHOICE]
    assert asking.taken() == ["none"]
    (kept,) = asking.searches.demands.values()
    assert len(kept.by_group) == 4, "results of groups that are gone are forgotten"


def test_all_nodes_are_searched_again_when_the_past_is_not_known(asking: Asking) -> None:
    asking.codes(a_claim("c"))
    asking.taken()
    asking.cluster.claims.count_anew()
    assert asking.codes(a_claim("c")) == [0, 0, NO_CHOICE]
    assert asking.taken() == ["a", "b", "none"]


def test_all_nodes_are_searched_again_when_a_class_changed(asking: Asking) -> None:
    asking.codes(a_claim("c"))
    asking.taken()
    asking.cluster.put(a_class("gpu", "false"))
    assert asking.codes(a_claim("c")) == [NO_CHOICE] * 3
    asking.cluster.put(a_class("other"))
    asking.taken()
    assert asking.codes(a_claim("c")) == [NO_CHOICE] * 3
    assert asking.taken() == ["a", "b", "none"]


def test_the_last_64_demands_are_remembered(asking: Asking) -> None:
    for number in range(64):
        asking.codes(a_claim("c", an_ask(1, f"{number} >= 0")), rows=ROWS[:1])
    assert len(asking.taken()) == 64
    asking.codes(a_claim("c", an_ask(1, "0 >= 0")), rows=ROWS[:1])
    assert asking.taken() == [], "the first is still known, and now the last that was asked for"
    asking.codes(a_claim("c", an_ask(1, "true")), rows=ROWS[:1])
    assert asking.taken() == ["a"]
    asking.codes(a_claim("c", an_ask(1, "0 >= 0")), rows=ROWS[:1])
    assert asking.taken() == []
    asking.codes(a_claim("c", an_ask(1, "1 >= 0")), rows=ROWS[:1])
    assert asking.taken() == ["a"], "the second was forgotten"


# ---- what is found


def ranked() -> Asking:
    slices = (
        a_slice("a", a_device("d0", model="h100"), a_device("d1", model="h100"), node="a"),
        a_slice("b", a_device("d0", model="t4"), a_device("d1", model="t4"), node="b"),
    )
    return Asking(a_cluster(*map(a_node, NODES), a_class(), *slices))


def test_alternatives_score_8_or_less_and_nodes_without_devices_nothing() -> None:
    asking = ranked()

    def scores(*claims: ResourceClaim) -> list[int]:
        return asking.searches.scores(asking.cluster, claims, ROWS).tolist()  # type: ignore[no-any-return]

    either = [an_ask(1, H100), an_ask()]
    assert scores(a_claim("c", either)) == [8, 7, 0]
    assert scores(a_claim("c", either, either)) == [16, 14, 0]
    assert scores(a_claim("c", either), a_claim("d", either)) == [16, 14, 0]
    assert scores(a_claim("c", [an_ask(2, H100), an_ask(2)])) == [8, 7, 0], "two devices of one alternative"
    assert scores(a_claim("c")) == [0, 0, 0]
    assert scores(a_claim("c", [an_ask(0)])) == [0, 0, 0], "an alternative of which no device was taken"


def test_rows_with_the_same_devices_come_together() -> None:
    shared = a_slice("net", a_device("n0"), pool="net", allNodes=True)
    cluster = a_cluster(*map(a_node, "abcd"), a_class(), shared, a_slice("b", a_device("d0"), node="b", pool="a"))
    asking = Asking(cluster)
    rows = np.array([3, 1, 0], np.intp)
    found = asking.searches.choices(cluster, [a_claim("c")], rows)
    assert sorted((choice.picks[0][0].site.id[2], places.tolist()) for choice, places in found) == [
        *(("d0", [1]), ("n0", [0, 2])),
    ]
    assert [places.tolist() for _, places in asking.searches.choices(cluster, [a_claim("c", an_ask(2))], rows)] == [[1]]


def test_the_devices_of_one_node_can_be_asked_for() -> None:
    asking = Asking()
    choices = [asking.searches.choice(asking.cluster, [a_claim("c")], row) for row in range(3)]
    assert [None if each is None else each.picks[0][0].site.id[1] for each in choices] == ["a", "b", None]


def test_invalid_pools_have_a_code_of_their_own() -> None:
    asking = Asking(a_world(a_slice("x", a_device(), a_device(), nodeName="c", pool="x")))
    assert asking.codes(a_claim("c", an_ask(2))) == [0, NO_CHOICE, INVALID_POOLS]


# ---- errors


def test_an_error_of_one_node_ends_the_attempt_and_names_the_claims_of_the_pod() -> None:
    asking = ranked()
    claims = [a_claim("c"), a_claim("d", an_ask(1, f"{OWN}.missing"))]
    for names in (("c", "d"), ("x", "y")):
        renamed = [a_claim(name, metadata={"uid": name}) for name in names]
        asked = [msgspec.structs.replace(each, spec=claim.spec) for each, claim in zip(renamed, claims, strict=True)]
        with pytest.raises(PluginError) as raised:
            asking.searches.codes(asking.cluster, asked, ROWS)
        assert str(raised.value) == (
            f"claim default/{names[1]}: selector #0 on device gpu.example.com/a/d1: CEL runtime error: no such key: missing. "
            "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
            "fields"
        )
    assert asking.codes(*claims, rows=ROWS[2:]) == [NO_CHOICE], "node c has no devices that a selector could fail on"
    assert asking.searches.choice(asking.cluster, claims, 0) is None


def test_a_slice_that_cannot_be_read_ends_all_attempts() -> None:
    bad = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Sounds"}]}]}
    asking = Asking(a_world(a_slice("bad", pool="bad", nodeSelector=bad)))
    with pytest.raises(PluginError, match="^gather pool information: "):
        asking.codes(a_claim("c"))


# ---- effort


def test_an_attempt_gets_all_steps_or_what_its_namespace_may_use() -> None:
    asking = Asking(max_steps=100_000)
    effort = asking.searches.effort("default")
    assert (effort.max_steps, effort.is_short) == (100_000, False)
    asking.searches.shares.charge("default", 2_000_000, 0)
    effort = asking.searches.effort("default")
    assert (effort.max_steps, effort.is_short) == (2_000, True)
    small = Asking(max_steps=500)
    small.searches.shares.charge("default", 2_000_000, 0)
    effort = small.searches.effort("default")
    assert (effort.max_steps, effort.is_short) == (500, True)
    free = Asking()
    free.searches.shares.charge("default", 2_000_000, 0)
    effort = free.searches.effort("default")
    assert (effort.max_steps, effort.is_short) == (None, False)


def searching_for(monkeypatch: pytest.MonkeyPatch, steps: dict[str, int], compiled: bool = False) -> Asking:
    """A search that takes so many steps on each node, of 5,000 that an attempt may take."""

    def search(demand: Any, group: NodeGroup, ledger: Any, features: Any, effort: Effort) -> DeviceChoice:
        if compiled:
            effort.compiled.add("selector")
        effort.spend(steps[group.pools[0].id[1] if group.pools else "none"])
        return DeviceChoice([[]], [[]])

    monkeypatch.setattr(device_search_cache, "search", search)
    return Asking(max_steps=5_000)


def test_the_steps_of_an_attempt_are_charged_to_the_namespace_of_its_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = searching_for(monkeypatch, {"a": 3_000, "b": 1_000, "none": 0})
    claim = a_claim("c", metadata={"namespace": "team"})
    assert asking.codes(claim) == [0, 0, 0]
    shares = asking.searches.shares
    assert (shares.owed("team", 0), shares.owed("default", 0)) == (4_000, 0)
    assert asking.codes(claim) == [0, 0, 0]
    assert shares.owed("team", 0) == 4_000, "what is known costs nothing"


def test_an_attempt_that_takes_too_long_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = searching_for(monkeypatch, {"a": 3_000, "b": 3_000, "none": 0})
    with pytest.raises(OutOfEffort) as raised:
        asking.codes(a_claim("c"))
    assert str(raised.value) == "node b: timed out trying to allocate devices"
    assert asking.searches.shares.owed("default", 0) == 6_000, "an attempt that fails is charged as well"
    assert asking.codes(a_claim("c")) == [0, 0, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_node_that_needs_more_than_all_steps_is_given_up_if_nothing_was_learnt(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = searching_for(monkeypatch, {"a": 6_000, "b": 1, "none": 1}, compiled)
    for _ in range(2):
        with pytest.raises(OutOfEffort) as raised:
            asking.codes(a_claim("c"), rows=ROWS[:1])
        assert str(raised.value) == "node a: timed out trying to allocate devices"
    (kept,) = asking.searches.demands.values()
    assert len(kept.by_group) == (0 if compiled else 1)


def test_without_a_limit_nothing_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    searching_for(monkeypatch, {"a": 6_000, "b": 6_000, "none": 6_000})
    asking = Asking()
    assert asking.codes(a_claim("c")) == [0, 0, 0]
    assert asking.searches.shares.owed("default", 0) == 0


def test_a_search_that_took_too_long_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: Any) -> None:
        raise TookTooLong

    monkeypatch.setattr(device_search_cache, "search", search)
    asking = Asking(max_steps=1)
    with pytest.raises(OutOfEffort, match="^node b: timed out trying to allocate devices$"):
        asking.codes(a_claim("c"), rows=np.array([1, 0], np.intp))


# ---- self-checks


def test_a_self_check_knows_nothing_of_another_class() -> None:
    asking = Asking()
    asking.codes(a_claim("c"))
    assert asking.searches.kept_only().codes(asking.cluster, [a_claim("c")], ROWS).tolist() == [0, 0, NO_CHOICE]
    with pytest.raises(OutOfEffort, match="^no attempt has searched devices for these claims$"):
        asking.searches.kept_only().codes(asking.cluster, [a_claim("c", an_ask(2))], ROWS)
    asking.cluster.put(a_class("gpu", "false"))
    with pytest.raises(OutOfEffort, match="^no attempt has searched devices for these claims$"):
        asking.searches.kept_only().codes(asking.cluster, [a_claim("c")], ROWS)


def test_a_self_check_of_some_nodes_needs_no_answers_for_others() -> None:
    asking = Asking()
    asking.codes(a_claim("c"), rows=ROWS[:1])
    kept = asking.searches.kept_only()
    assert kept.codes(asking.cluster, [a_claim("c")], ROWS[:1]).tolist() == [0]
    with pytest.raises(OutOfEffort):
        kept.codes(asking.cluster, [a_claim("c")], ROWS)
