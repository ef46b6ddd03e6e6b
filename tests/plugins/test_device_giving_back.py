"""What is given back, claim by claim: devices in PostFilter, and all that a pod has when it does not go to its node."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from device_building import a_claim, a_status, an_allocation, claiming
from gangs import a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import GroupFitError
from mooring.framework.contract.intents import Intent, Write, WriteFault
from mooring.framework.contract.points import SchedulerServices
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.model.devices import ClaimConsumer, ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.devices.claim_rules import (
    count_on,
    group_consumers,
    idle_group_claims,
    offer_to_group,
    pending_in_group,
)
from mooring.plugins.devices.device_claims import ClaimState, Unresolved, claim_for
from mooring.plugins.devices.giving_back import free_devices, free_for_group, give_back, withdraw
from volume_asking import a_context

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
GIVEN: dict[str, Any] = {"allocation": an_allocation("a/d0")}
MINE = {"resource": "pods", "name": "p", "uid": "uid-p"}
ANOTHERS = {"resource": "pods", "name": "q", "uid": "uid-q"}
OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}
LOST, REFUSED = WriteFault("no answer", 0), WriteFault("conflict", 409)


class World:
    """A cluster with some claims, and what the plugin wants done."""

    def __init__(self, *items: KubeObject, pod: Pod | None = None, gates: dict[str, bool] | None = None) -> None:
        self.cluster = Cluster(GATES if gates is None else gates)
        for item in items:
            self.cluster.put(item)
            if isinstance(item, Pod) and self.cluster.groups is not None:
                self.cluster.groups.add(item)
        self.pod = pod or a_pod("p", metadata={"uid": "uid-p"})
        self.wanted: list[Intent] = []
        self.activated: list[str] = []
        self.services = SchedulerServices(
            self.cluster,
            want=self.wanted.append,
            activate=lambda pods: self.activated.extend(pod.name for pod in pods),
        )
        self.context: SchedulingContext = a_context(self.cluster, self.pod)

    def writes(self) -> list[Write]:
        found = [each for each in self.wanted if isinstance(each, Write)]
        assert len(found) == len(self.wanted)
        return found

    def told(self) -> list[str]:
        """The writes, as method and name."""
        return [f"{write.method} {write.name} {write.form}" for write in self.writes()]

    def answer(self, answer: KubeObject | WriteFault | None, place: int = -1) -> None:
        late = self.writes()[place].late
        assert late is not None
        late(answer)


# ---- devices that keep the pod from all nodes


def test_of_claims_in_the_way_the_first_that_no_other_pod_uses_gives_way() -> None:
    used = a_claim("a", status={**GIVEN, "reservedFor": [ANOTHERS]})
    mine = a_claim("b", status={**GIVEN, "reservedFor": [MINE]})
    world = World()
    state = ClaimState([used, mine, a_claim("c", status=GIVEN)], unavailable={2, 0, 1})
    assert free_devices(world.context, state, world.services).rejection == curable(
        "deallocation of ResourceClaim completed"
    )
    assert world.told() == ["PATCH b merge"]


def test_the_pod_is_tried_again_if_the_claim_could_not_be_freed() -> None:
    world = World()
    free_devices(world.context, ClaimState([a_claim("a", status=GIVEN)], unavailable={0}), world.services)
    world.answer(a_claim("a"))
    assert world.activated == []
    world.answer(REFUSED)
    assert world.activated == ["p"]


def test_the_claim_for_extended_resources_is_deleted_and_not_freed() -> None:
    extended = a_claim("x", status=GIVEN)
    world = World()
    state = ClaimState([a_claim("a"), extended], extended=extended, unavailable={1})
    assert free_devices(world.context, state, world.services).rejection == curable(
        "deletion of ResourceClaim completed"
    )
    assert world.told() == ["PATCH x merge", "DELETE x merge"]


def test_a_claim_that_was_never_written_is_not_deleted() -> None:
    world = World()
    extended = claim_for(world.pod, world.cluster.claims)
    for state in (ClaimState([extended], extended=extended), ClaimState([a_claim("a")])):
        assert free_devices(world.context, state, world.services).rejection == curable()
    assert free_devices(world.context, ClaimState(), world.services).rejection == curable()
    assert world.wanted == []


# ---- claims of groups


def a_claiming_group(*claims: dict[str, str], **status: Any) -> PodGroup:
    entries = [*claims] or [{"name": "shared", "resourceClaimName": "shared"}]
    group = msgspec.to_builtins(a_group(uid="uid-gang", resourceClaims=entries))
    return msgspec.convert({**group, "status": status}, PodGroup)


def a_group_world(*more: KubeObject, gates: dict[str, bool] | None = None, **claim: Any) -> World:
    """A claim that is reserved for the group of the pod, and has devices."""
    status = {**GIVEN, "reservedFor": [OF_GROUP], **claim}
    items = (a_claim("shared", status=status), a_claiming_group(), *more)
    return World(*items, pod=claiming(a_member("p"), "shared"), gates=gates)


def free_for(world: World, state: ClaimState) -> Rejection:
    """The answer of PodGroupPostFilter for a group with one member, the pod of the world."""
    name = GroupName(world.pod.group_key or "")
    group = world.cluster.pod_group(name.key) or a_group()
    return free_for_group(
        GroupFitError(name, group, (world.pod,), world.cluster, (world.context,)), [state], world.services
    )


def test_v137_17_11_a_claim_that_only_the_group_uses_is_freed() -> None:
    world = a_group_world()
    claim = a_claim("shared", status={**GIVEN, "reservedFor": [OF_GROUP]})
    found = free_for(world, ClaimState([claim], unavailable={0}))
    assert found == curable("deallocation of PodGroup ResourceClaim completed")
    assert len(world.writes()) == 1


def test_a_claim_of_a_group_without_pods_on_nodes_is_withdrawn() -> None:
    world = a_group_world()
    state = ClaimState([a_claim("shared", status=GIVEN)])
    assert free_for(world, state) == curable("ResourceClaim unreserved for PodGroup")
    (write,) = world.writes()
    assert write.form == "strategic" and isinstance(write.body, dict)
    assert write.body["status"] == {"reservedFor": [{"$patch": "delete", "uid": "uid-gang"}]}
    world.answer(REFUSED)
    assert world.activated == ["p"]


@pytest.mark.parametrize(
    "world",
    [
        a_group_world(gates={"GenericWorkload": True}),
        a_group_world(gates={"DRAWorkloadResourceClaims": True}),
        a_group_world(reservedFor=[ANOTHERS]),
        a_group_world(allocation=None),
        a_group_world(a_member("there", nodeName="n")),
    ],
    ids=["without its gate", "without groups", "of another pod", "without devices", "with a pod on a node"],
)
def test_other_claims_of_groups_stay_as_they_are(world: World) -> None:
    found = free_for(world, ClaimState([a_claim("x")]))
    assert (found, world.wanted) == (curable("deallocation and deletion of ResourceClaims completed"), [])


def test_members_that_the_attempt_has_placed_itself_do_not_count() -> None:
    world = a_group_world()
    groups = world.cluster.groups
    assert groups is not None
    with groups.cycle([world.pod.group_key or ""]):
        groups.add(a_member("there", nodeName="n"))
        assert [claim.name for claim, _ in idle_group_claims(world.pod, world.cluster)] == ["shared"]
    assert list(idle_group_claims(world.pod, world.cluster)) == []
    with groups.cycle([world.pod.group_key or ""]):
        assert list(idle_group_claims(world.pod, world.cluster)) == []


def test_each_claim_of_the_group_is_looked_at() -> None:
    entries = [{"name": each, "resourceClaimName": each} for each in ("free", "shared", "too")]
    status = {**GIVEN, "reservedFor": [OF_GROUP]}
    claims = (a_claim("free"), a_claim("shared", status=status), a_claim("too", status=status))
    world = World(*claims, a_claiming_group(*entries), pod=a_member("p"))
    found = [(claim.name, uid) for claim, uid in idle_group_claims(world.pod, world.cluster)]
    assert found == [("shared", "uid-gang"), ("too", "uid-gang")]


def test_a_group_that_is_missing_is_an_error() -> None:
    world = World(pod=a_member("p"))
    with pytest.raises(PluginError) as raised:
        free_for(world, ClaimState([a_claim("x")]))
    assert str(raised.value) == "pod group object not found for pod group default/gang"


def test_the_claims_of_the_group_are_found_among_those_of_the_pod() -> None:
    pod = claiming(a_member("p"), "own", "shared", "late")
    claims = (a_claim("own"), a_claim("shared"), a_claim("late"))
    entries = [{"name": each, "resourceClaimName": each} for each in ("late", "shared")]
    world = World(*claims, a_claiming_group(*entries), pod=pod)
    consumer = ClaimConsumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang")
    assert group_consumers(pod, world.cluster) == {1: consumer, 2: consumer}
    plain = World(*claims, a_group(uid="uid-gang"), pod=pod)
    assert group_consumers(pod, plain.cluster) == {}
    assert group_consumers(claiming(a_pod("q"), "own"), world.cluster) == {}
    assert group_consumers(pod, World(*claims, gates={"GenericWorkload": True}).cluster) == {}


def test_an_entry_without_a_source_is_told() -> None:
    world = World(a_claim("own"), a_claiming_group({"name": "x"}), pod=claiming(a_member("p"), "own"))
    with pytest.raises(Unresolved) as raised:
        group_consumers(world.pod, world.cluster)
    assert str(raised.value) == "PodGroup default/gang claim x: none of the supported fields are set"


# ---- allocations that a group shares


def test_members_of_a_group_count_on_an_allocation_of_the_same_attempt() -> None:
    claim = a_claim("c", status=GIVEN)
    world, free = World(pod=a_member("p")), a_claim("c")
    world.cluster.claims.begin(claim)
    assert not offer_to_group(world.context, free), "the pod is tried alone"
    assert pending_in_group(world.context, free) is None
    groups = world.cluster.groups
    assert groups is not None
    with groups.cycle([world.pod.group_key or ""]):
        assert pending_in_group(world.context, free) is None, "it was not offered"
        assert offer_to_group(world.context, free)
        assert pending_in_group(world.context, free) is claim
        follower = a_context(world.cluster, a_member("q"))
        assert count_on(follower, free) is claim.status.allocation
        assert world.cluster.claims.sharers("uid-c") == ["uid-p", "uid-q"]
    assert pending_in_group(world.context, free) is None
    with pytest.raises(PluginError) as raised:
        count_on(follower, free)
    assert str(raised.value) == "claim allocation not found for node"


def test_without_groups_nothing_is_shared() -> None:
    world = World(pod=a_member("p"), gates={})
    world.cluster.claims.begin(a_claim("c", status=GIVEN))
    assert not offer_to_group(world.context, a_claim("c"))
    assert pending_in_group(world.context, a_claim("c")) is None
    assert world.cluster.claims.sharers("uid-c") == []


# ---- reservations


def test_a_reservation_is_on_its_way_out_until_the_answer_comes() -> None:
    for answer in (a_claim("c"), REFUSED, None):
        world, heard = World(a_claim("c", status=GIVEN)), list[object]()
        ledger = world.cluster.claims
        withdraw(a_claim("c"), "uid-p", ledger, world.services, heard.append)
        assert world.told() == ["PATCH c strategic"]
        assert ledger.is_given_back(a_claim("c"), "uid-p") and not ledger.is_given_back(a_claim("c"), "uid-q")
        world.answer(answer)
        assert not ledger.is_given_back(a_claim("c"), "uid-p")
        assert heard == [answer] and len(world.wanted) == 1


def test_after_an_answer_that_is_not_to_be_relied_on_the_claim_is_read_five_times_at_most() -> None:
    world, heard = World(a_claim("c", status=GIVEN)), list[object]()
    withdraw(a_claim("c"), "uid-p", world.cluster.claims, world.services, heard.append)
    for reads in range(1, 6):
        world.answer(LOST)
        assert world.told()[1:] == ["PATCH c merge"] * reads
        assert world.writes()[-1].body == {} and heard == []
    assert world.cluster.claims.is_given_back(a_claim("c"), "uid-p")
    world.answer(LOST)
    assert heard == [LOST] and len(world.wanted) == 6
    assert not world.cluster.claims.is_given_back(a_claim("c"), "uid-p")


# ---- a pod that does not go to its node


def test_a_pod_gives_back_what_was_never_written_and_reservations_that_were() -> None:
    pending = a_claim("pending", status=GIVEN)
    mine = a_claim("mine", status={"allocation": an_allocation("a/d1"), "reservedFor": [MINE]})
    others = a_claim("others", status={"allocation": an_allocation("a/d2"), "reservedFor": [ANOTHERS]})
    half = a_claim("half", status={"reservedFor": [MINE]})
    world = World(a_claim("pending"), mine, others, half)
    world.cluster.claims.begin(pending)
    assert pending.status.allocation is not None
    state = ClaimState([a_claim("pending"), mine, others, half], allocations={0: pending.status.allocation})
    give_back(world.context, state, world.services)
    assert world.cluster.claims.pending_ids() == set()
    assert world.told() == ["PATCH mine strategic"]
    assert state.allocations == {}


def test_what_another_pod_is_about_to_write_stays_pending() -> None:
    world = World(a_claim("c"))
    world.cluster.claims.begin(a_claim("c", status=GIVEN))
    give_back(world.context, ClaimState([a_claim("c")]), world.services)
    assert world.cluster.claims.pending_ids() == {"uid-c"} and world.wanted == []


def test_what_devices_took_from_the_node_is_given_back() -> None:
    world = World()
    state = ClaimState([a_claim("c")], node_resources=[a_status("c", ["main"], cpu="1")])
    give_back(world.context, state, world.services)
    (write,) = world.writes()
    assert (write.kind, write.name, write.subresource) == (Pod, "p", "status")
    status: dict[str, Any] = {"nodeAllocatableResourceClaimStatuses": []}
    assert write.body == {"metadata": {"uid": "uid-p"}, "status": status}, "a list of nothing clears the field"


def a_pending(claim: ResourceClaim) -> ResourceClaim:
    return msgspec.structs.replace(claim, status=a_claim("x", status=GIVEN).status)


def test_an_extended_claim_that_was_never_written_only_ends() -> None:
    world = World()
    extended = claim_for(world.pod, world.cluster.claims)
    world.cluster.claims.begin(a_pending(extended))
    give_back(world.context, ClaimState([extended], extended=extended), world.services)
    assert (world.wanted, world.cluster.claims.pending_ids()) == ([], set())


def test_an_extended_claim_that_was_written_is_deleted_and_its_devices_stay_taken_until_then() -> None:
    created = a_claim("made")
    world = World(a_claim("own"), created)
    allocation = a_pending(created).status.allocation
    assert allocation is not None
    state = ClaimState([a_claim("own"), created], extended=created, allocations={1: allocation})
    give_back(world.context, state, world.services)
    assert world.told() == ["PATCH made merge", "DELETE made merge"]
    ledger = world.cluster.claims
    assert ledger.pending_ids() == {"uid-made"} and state.allocations == {}
    assert [device[2] for device in ledger.exclusive] == ["d0"]
    world.answer(None, 0)
    assert ledger.pending_ids() == {"uid-made"}, "it is not deleted yet"
    world.answer(None, 1)
    assert ledger.pending_ids() == set()


def test_an_extended_claim_without_devices_of_this_attempt_is_deleted_alone() -> None:
    created = a_claim("made")
    world = World(created)
    give_back(world.context, ClaimState([created], extended=created), world.services)
    assert world.told() == ["PATCH made merge", "DELETE made merge"]
    assert world.cluster.claims.pending_ids() == set()
