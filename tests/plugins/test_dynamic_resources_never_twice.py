"""No device is given twice: whatever is deleted, refused or answered late, at every point of the binding cycle."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_rule, a_slice, an_ask, claiming, parts_of_node
from gangs import a_group
from how_many import examples
from late_claims import LateClaims, allocated
from mooring.cluster.cache import check_table
from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.framework.config.feature_gates import NEEDS
from mooring.model.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.model.pod import Pod
from mooring.model.pod_spec import ContainerClaim, PodResourceClaim, ResourceRequirements
from mooring.model.quantity import parse
from mooring.model.workloads import PodGroup
from mooring.plugins.devices.device_claims import is_reserved_for

GROUPS = (a_group("gang", 2), a_group("basic"))
PODS, CLAIMS, EXTENDED = range(6), range(4), "example.com/gpu"
SHARED = a_device(
    "shared", {"memory": {"value": "3Gi", "requestPolicy": {"default": "1Gi"}}}, allowMultipleAllocations=True
)
LINKS = {"links": {"ints": [0, 1]}}
OF_CPU = parts_of_node(cpu="1")
SLICES = (
    a_slice("a", a_device("0", attributes=LINKS), a_device("1", attributes={"links": {"ints": [1]}}), node="a"),
    a_slice("b", a_device("0"), SHARED, node="b"),
    a_slice("net", a_device("0", nodeAllocatableResources=OF_CPU), pool="net", allNodes=True),
)
ASKS: tuple[Any, ...] = (
    (an_ask(),),
    (an_ask(2),),
    (an_ask(), an_ask()),
    ([an_ask(2), an_ask()],),
    (an_ask(mode="All"),),
    (an_ask(2, f'device.attributes["{DRIVER}"].?links.hasValue()'),),
)
RULES = (a_rule("all"), a_rule("b", pool="b"), a_rule("0", "NoExecute", device="0"))
OFF_BY_DEFAULT = (
    *("DRAListTypeAttributes", "DRANodeAllocatableResources"),
    *("DRAWorkloadResourceClaims", "GenericWorkload"),
)
ON_BY_DEFAULT = ("DRADeviceBindingConditions", "DRADeviceTaintRules", "DRAPartitionableDevices")
"""DRAConsumableCapacity is not among them: claims that have shares of a device keep them when the gate is switched off."""


def using(pod: Pod) -> Pod:
    """The pod whose container uses all its claims."""
    entries = [ContainerClaim(entry.name) for entry in pod.spec.resource_claims or ()]
    for container in pod.spec.containers:
        container.resources = msgspec.structs.replace(container.resources or ResourceRequirements(), claims=entries)
    return pod


class Walk:
    """Users, the server, the watch and the scheduler, each taking steps at random."""

    def __init__(self, random: Random, **gates: bool) -> None:
        self.random = random
        self.groups = GROUPS if gates.get("GenericWorkload") else ()
        self.late = LateClaims(**gates)
        self.made = 0
        self.most_given = 0
        for item in (a_node("a"), a_node("b"), *SLICES, a_class("gpu", extendedResourceName=EXTENDED)):
            self.late.put(item)
        self.constraints = [{"matchAttribute": f"{DRIVER}/links"}] if gates.get("DRAListTypeAttributes") else []
        for group in self.groups:
            self.change_group(group)
        for name in CLAIMS:
            self.create_claim(name)
        for pod in PODS:
            self.create_pod(pod, [pod] if pod in CLAIMS else [])
        while self.late.unseen:
            self.late.show()

    def run(self, steps: int) -> None:
        choose, late = self.random.choice, self.late
        others: list[Callable[[], object]] = [
            lambda: self.create_pod(choose(PODS), self.random.sample(CLAIMS, self.random.randint(0, 2))),
            lambda: self.create_claim(choose(CLAIMS)),
            lambda: late.delete(Pod, f"default/p{choose(PODS)}"),
            lambda: late.delete(Pod, f"default/p{choose(PODS)}"),
            lambda: late.delete(ResourceClaim, f"default/c{choose(CLAIMS)}"),
            lambda: self.change_slice(choose(SLICES)),
            lambda: self.change_rule(choose(RULES)),
            lambda: self.change_group(choose(self.groups)) if self.groups else None,
            late.tidy,
            late.second,
            self.refuse,
            self.refuse,
            self.preempt,
        ]
        for _ in range(steps):
            if self.random.random() < 0.55:
                for _ in range(self.random.randint(1, 12)):
                    self.go_on()
            else:
                choose(others)()
            self.check()
        self.come_to_rest()

    # ---- users

    def create_pod(self, pod: int, names: list[int]) -> None:
        """One without claims requests an extended resource that devices serve. Where there are groups, most pods are in
        one, whose members share a claim."""
        if (Pod, f"default/p{pod}") not in self.late.store:
            self.made += 1
            group = self.random.choice([None, *range(len(self.groups)), *range(len(self.groups))])
            names = [*names] if group is None else sorted({group, *names[:1]})
            requests = {} if names else {EXTENDED: 1}
            more: dict[str, Any] = {"metadata": {"uid": f"pod-{self.made}"}, "schedulerName": "default-scheduler"}
            if group is not None:
                more["schedulingGroup"] = {"podGroupName": self.groups[group].name}
            self.late.put(using(claiming(a_pod(f"p{pod}", requests=requests, **more), *(f"c{name}" for name in names))))

    def create_claim(self, name: int) -> None:
        if (ResourceClaim, f"default/c{name}") not in self.late.store:
            self.made += 1
            constraints = self.constraints * (self.random.random() < 0.5)
            asks, uid = self.random.choice(ASKS), f"claim-{self.made}"
            self.late.put(a_claim(f"c{name}", *asks, constraints=constraints, metadata={"uid": uid}))

    def change_slice(self, slice: ResourceSlice) -> None:
        """It goes, or comes back."""
        if (ResourceSlice, slice.key) in self.late.store:
            self.late.delete(ResourceSlice, slice.key)
        else:
            self.late.put(slice)

    def change_rule(self, rule: DeviceTaintRule) -> None:
        """It goes, or comes back."""
        if (DeviceTaintRule, rule.key) in self.late.store:
            self.late.delete(DeviceTaintRule, rule.key)
        else:
            self.late.put(rule)

    def change_group(self, group: PodGroup) -> None:
        """It goes, unless it is protected because it has pods; or it comes anew. Its claim is that of its number."""
        if (PodGroup, group.key) in self.late.store:
            if all(pod.group_key != group.key for pod in self.late.pods()):
                self.late.delete(PodGroup, group.key)
            return
        self.made += 1
        claim = f"c{self.groups.index(group)}"
        spec = msgspec.structs.replace(
            group.spec, resource_claims=[PodResourceClaim(name=claim, resource_claim_name=claim)]
        )
        metadata = msgspec.structs.replace(group.metadata, uid=f"group-{self.made}")
        self.late.put(msgspec.structs.replace(group, spec=spec, metadata=metadata))

    # ---- what goes on

    def go_on(self) -> None:
        """Something happens that was going to happen, in any order."""
        late = self.late
        acts: list[Callable[[], object]] = [late.attempt, *[late.show] * (2 * bool(late.unseen))]
        acts += [partial(late.carry_out, place) for place in range(len(late.wanted))]
        acts += [partial(late.answer, place) for place in range(len(late.answers))]
        self.random.choice(acts)()

    def refuse(self) -> None:
        """The server is in trouble, and has done what was asked of it or not."""
        if self.late.wanted:
            is_lost = self.random.random() < 0.5
            self.late.carry_out(self.random.randrange(len(self.late.wanted)), refuse=not is_lost, lose=is_lost)

    def preempt(self) -> None:
        runs = list(self.late.scheduler.core.pre_bind.by_pod.values())
        if runs:
            self.late.stop(self.random.choice(runs).binding.pod)

    # ---- what must hold

    def check(self) -> None:
        """On the server, which is what drivers go by; and in what the scheduler believes."""
        results = allocated(self.late.claims())
        exclusive = Counter((r.driver, r.pool, r.device) for r in results if r.share_id is None)
        assert all(times == 1 for times in exclusive.values()), exclusive
        shares = [r for r in results if r.share_id is not None]
        assert sum(parse((r.consumed_capacity or {})["memory"]) for r in shares) <= parse("3Gi")
        assert len({r.share_id for r in shares}) == len(shares)
        faults = self.late.scheduler.core.cluster.claims.check()
        assert not faults, faults
        self.most_given = max(self.most_given, len(results))
        nodes = self.late.scheduler.cluster.nodes
        assert not check_table(nodes), check_table(nodes)
        self.check_groups()

    def check_groups(self) -> None:
        """Between attempts, what is pending belongs to pods that are being bound: no gang holds a part of its devices."""
        core = self.late.scheduler.core
        wanted = {
            f"default/{e.resource_claim_name}" for b in core.bindings.values() for e in b.pod.spec.resource_claims or ()
        }
        for claim in core.cluster.claims.pending_claims():
            is_named = claim.key in wanted or claim.metadata.owner_references
            assert is_named or core.cluster.claims.is_in_doubt(claim_id(claim)), claim.key

    def come_to_rest(self) -> None:
        """In the end nothing is on its way any more, and every pod that is bound has its claims."""
        late = self.late
        late.settle()
        for _ in range(150):
            late.second()
            late.settle()
        self.check()
        core = late.scheduler.core
        assert not core.cluster.claims.pending_ids()
        assert core.pre_bind.is_idle
        claims = {claim.name: claim for claim in late.claims()}
        for pod in late.pods():
            for entry in (pod.spec.resource_claims or ()) if pod.spec.node_name else ():
                claim = claims.get(entry.resource_claim_name or "")
                assert claim is None or is_reserved_for(claim, pod, core.cluster.claims.has_group_claims)


@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 2**32), on=st.sets(st.sampled_from(OFF_BY_DEFAULT)), off=st.sets(st.sampled_from(ON_BY_DEFAULT))
)
def test_no_device_is_given_twice_whatever_the_gates(seed: int, on: set[str], off: set[str]) -> None:
    needed = {need for gate in on for need in NEEDS.get(gate, ()) if need in OFF_BY_DEFAULT}
    Walk(Random(seed), **dict.fromkeys({*on, *needed}, True), **dict.fromkeys(off, False)).run(25)


def test_the_walk_gives_devices_at_all() -> None:
    walks = [Walk(Random(seed)) for seed in range(10)]
    for walk in walks:
        walk.run(25)
    assert max(walk.most_given for walk in walks) >= 5


def test_members_of_groups_share_claims_in_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []
    share = ClaimLedger.share

    def noted(ledger: ClaimLedger, id: str, pod_id: str) -> bool:
        is_pending = share(ledger, id, pod_id)
        shared.append(len(ledger.sharers(id)))
        return is_pending

    monkeypatch.setattr(ClaimLedger, "share", noted)
    for seed in range(20):
        Walk(Random(seed), GenericWorkload=True).run(25)
    assert max(shared) >= 2
