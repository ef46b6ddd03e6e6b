"""Members of a group that share devices which take from cpu and memory of their node (gate DRANodeAllocatableResources)."""

import msgspec
import pytest
from test_device_node_resources import GATE, JsonObject, node_of, put, requested, taken, taking, why

from build import a_node
from device_building import a_claim, a_class, a_device, a_slice
from gangs import GROUP_GATES, a_group, a_member
from late_claims import LateClaims
from mooring.model.pod import Pod


def a_sharer(name: str, cpu: str = "1", claims: tuple[str, ...] = ("shared",), is_used: bool = True) -> Pod:
    """A member whose container uses its claims, unless told otherwise."""
    pod = msgspec.to_builtins(a_member(name, cpu=cpu))
    if is_used:
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    pod["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
    return msgspec.convert(pod, Pod)


def costing(name: str = "d0", **resources: str) -> JsonObject:
    """A device that it costs so much of each resource to use."""
    costs = {resource: {"overhead": {"perPod": amount}} for resource, amount in resources.items()}
    return a_device(name, nodeAllocatableResources=costs)


def a_world(*devices: JsonObject, cpu: str = "100", gate: bool = True, min_count: int | None = 2) -> LateClaims:
    late = LateClaims(**GROUP_GATES, **{GATE: gate})
    node = a_node("a", cpu=cpu, memory="100Gi")
    for item in (node, a_slice("a", *devices, node="a"), a_class(), a_claim("shared"), a_group("gang", min_count)):
        late.put(item)
    return late


def resources_of(late: LateClaims, name: str) -> dict[str, dict[str, str]]:
    """What it costs to use each of its claims, as the status of a pod says."""
    return {
        each["resourceClaimName"]: {entry["name"]: entry["perPod"] for entry in each["overhead"]}
        for each in taken(late, name) or ()
    }


def test_what_a_shared_device_takes_counts_for_each_member() -> None:
    late = a_world(costing(cpu="10"))
    put(late, a_sharer("p0"), a_sharer("p1"))
    for name in ("p0", "p1"):
        assert node_of(late, name) == "a"
        assert resources_of(late, name) == {"shared": {"cpu": "10"}}
    assert requested(late)[0] == 22_000


@pytest.mark.parametrize(("cpu", "is_room"), [("22", True), ("21", False)])
def test_the_node_must_have_room_for_what_counts_for_all_members(cpu: str, is_room: bool) -> None:
    late = a_world(costing(cpu="10"), cpu=cpu)
    put(late, a_sharer("p0"), a_sharer("p1"))
    assert [bool(node_of(late, name)) for name in ("p0", "p1")] == [is_room] * 2
    if not is_room:
        assert why(late, "p1") == "Insufficient cpu."
        assert requested(late) == (0, 0)
        assert not late.scheduler.core.cluster.claims.pending_ids()


def test_a_claim_of_its_own_counts_beside_the_shared_one() -> None:
    late = a_world(*(costing(f"d{i}", cpu="10") for i in range(3)))
    put(late, a_claim("own-0"), a_claim("own-1"))
    put(late, *(a_sharer(f"p{i}", claims=("shared", f"own-{i}")) for i in range(2)))
    for i in range(2):
        assert resources_of(late, f"p{i}") == {f"own-{i}": {"cpu": "10"}, "shared": {"cpu": "10"}}
    assert requested(late)[0] == 42_000


SHARED = "node allocatable resource claim shared has a mapped device and cannot be shared across pods."


def test_v137_17_9_members_cannot_share_a_device_that_is_a_part_of_its_node() -> None:
    late = a_world(taking(cpu="10"), min_count=None)
    put(late, a_sharer("p0"), a_sharer("p1"))
    assert node_of(late, "p0") == "a"
    assert why(late, "p1") == SHARED


def test_a_member_that_comes_later_finds_the_claim_in_use() -> None:
    late = a_world(taking(cpu="10"), min_count=None)
    put(late, a_sharer("p0"))
    put(late, a_sharer("p1"))
    assert why(late, "p1") == SHARED


def test_without_the_gate_shared_devices_take_nothing() -> None:
    late = a_world(taking(cpu="10"), cpu="2", gate=False)
    put(late, a_sharer("p0"), a_sharer("p1"))
    assert [(node_of(late, name), taken(late, name)) for name in ("p0", "p1")] == [("a", None)] * 2
