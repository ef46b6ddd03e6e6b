"""No device is given twice: whatever is deleted, refused or answered late, at every point of the binding cycle."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from build import a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_ask, claiming
from late_claims import LateClaims, allocated
from mooring.model.devices import ResourceClaim, ResourceSlice
from mooring.model.pod import Pod
from mooring.model.quantity import parse

PODS, CLAIMS, EXTENDED = range(6), range(4), "example.com/gpu"
SHARED = a_device(
    "shared", {"memory": {"value": "3Gi", "requestPolicy": {"default": "1Gi"}}}, allowMultipleAllocations=True
)
SLICES = (
    a_slice("a", a_device("0"), a_device("1"), node="a"),
    a_slice("b", a_device("0"), SHARED, node="b"),
    a_slice("net", a_device("0"), pool="net", allNodes=True),
)
ASKS: tuple[Any, ...] = (
    (an_ask(),),
    (an_ask(2),),
    (an_ask(), an_ask()),
    ([an_ask(2), an_ask()],),
    (an_ask(mode="All"),),
)


class Claims(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.late = LateClaims()
        self.made = 0
        for name in ("a", "b"):
            self.late.put(a_node(name))
        for each in SLICES:
            self.late.put(each)
        self.late.put(a_class("gpu", extendedResourceName=EXTENDED))
        while self.late.unseen:
            self.late.show()

    @initialize(asks=st.lists(st.sampled_from(ASKS), min_size=len(CLAIMS), max_size=len(CLAIMS)))
    def begin(self, asks: list[Any]) -> None:
        for name in CLAIMS:
            self.create_claim(name, asks[name])
        for pod in PODS:
            self.create_pod(pod, [pod] if pod in CLAIMS else [])
        while self.late.unseen:
            self.late.show()

    # ---- users

    @rule(pod=st.sampled_from(PODS), names=st.lists(st.sampled_from(CLAIMS), min_size=0, max_size=2, unique=True))
    def create_pod(self, pod: int, names: list[int]) -> None:
        if (Pod, f"default/p{pod}") not in self.late.store:
            self.made += 1
            requests = {} if names else {EXTENDED: 1}
            new = a_pod(
                f"p{pod}", requests=requests, metadata={"uid": f"pod-{self.made}"}, schedulerName="default-scheduler"
            )
            self.late.put(claiming(new, *(f"c{name}" for name in names)))

    @rule(name=st.sampled_from(CLAIMS), asks=st.sampled_from(ASKS))
    def create_claim(self, name: int, asks: Any) -> None:
        if (ResourceClaim, f"default/c{name}") not in self.late.store:
            self.made += 1
            self.late.put(a_claim(f"c{name}", *asks, metadata={"uid": f"claim-{self.made}"}))

    @rule(pod=st.sampled_from(PODS))
    def delete_pod(self, pod: int) -> None:
        self.late.delete(Pod, f"default/p{pod}")

    @rule(name=st.sampled_from(CLAIMS))
    def delete_claim(self, name: int) -> None:
        self.late.delete(ResourceClaim, f"default/c{name}")

    @rule(place=st.integers(0, len(SLICES) - 1))
    def change_slice(self, place: int) -> None:
        """A slice goes, or comes back."""
        if (ResourceSlice, SLICES[place].key) in self.late.store:
            self.late.delete(ResourceSlice, SLICES[place].key)
        else:
            self.late.put(SLICES[place])

    @rule()
    def tidy(self) -> None:
        self.late.tidy()

    # ---- what is on its way

    @rule(data=st.data(), times=st.integers(1, 12))
    def go_on(self, data: st.DataObject, times: int) -> None:
        """Something happens that was going to happen, in any order."""
        late = self.late
        for _ in range(times):
            acts = [late.attempt, *[late.show] * (2 * bool(late.unseen))]
            acts += [lambda place=i: late.carry_out(place) for i in range(len(late.wanted))]  # type: ignore[misc]
            acts += [lambda place=i: late.answer(place) for i in range(len(late.answers))]  # type: ignore[misc]
            acts[data.draw(st.integers(0, len(acts) - 1))]()

    @precondition(lambda self: self.late.wanted)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        self.late.carry_out(data.draw(st.integers(0, len(self.late.wanted) - 1)), refuse=True)

    # ---- the scheduler

    @rule()
    def second(self) -> None:
        self.late.second()

    @precondition(lambda self: self.late.scheduler.core.preparations)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        preparations = list(self.late.scheduler.core.preparations.values())
        self.late.stop(data.draw(st.sampled_from(preparations)).binding.pod)

    # ---- what must hold

    @invariant()
    def no_device_is_given_twice(self) -> None:
        """On the server, which is what drivers go by."""
        results = allocated(self.late.claims())
        exclusive = Counter((r.driver, r.pool, r.device) for r in results if r.share_id is None)
        assert all(times == 1 for times in exclusive.values()), exclusive
        shares = [r for r in results if r.share_id is not None]
        assert sum(parse((r.consumed_capacity or {})["memory"]) for r in shares) <= parse("3Gi")
        assert len({r.share_id for r in shares}) == len(shares)

    @invariant()
    def the_ledger_adds_up(self) -> None:
        assert self.late.scheduler.core.cluster.claims.check() == []

    def teardown(self) -> None:
        """When everything has come to rest nothing is pending, and a bound pod has its claims."""
        late = self.late
        late.settle()
        for _ in range(150):
            late.second()
            late.settle()
        assert not late.scheduler.core.cluster.claims._pending
        assert not late.scheduler.core.late_writes
        self.no_device_is_given_twice()
        self.the_ledger_adds_up()


Claims.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestClaims = pytest.mark.slow(Claims.TestCase)
