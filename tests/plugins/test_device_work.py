"""The binding of claims, write by write: what is asked of the server, what each answer leads to, and what is left when the
work is stopped."""

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from build import a_cluster, a_pod
from device_building import a_claim, a_status, an_allocation, an_ask
from mooring.framework.contract.intents import Intent, Record, Write, WriteFault
from mooring.framework.contract.points import Handle, Pause, PodGone, SchedulerServices
from mooring.framework.contract.status import PluginError
from mooring.framework.profile.metric_catalogue import CATALOGUE
from mooring.kit.clock import NS_PER_S
from mooring.kit.metrics import MetricRegistry
from mooring.model.devices import Allocation, ClaimConsumer, ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import RequestMapping
from mooring.plugins.devices.allocation import FINALIZER, ClaimMetrics, allocated
from mooring.plugins.devices.claim_work import ClaimWork
from mooring.plugins.devices.device_claims import ClaimState, claim_for
from volume_asking import a_context

POD = a_pod("p", metadata={"uid": "uid-p"})
MINE = {"resource": "pods", "name": "p", "uid": "uid-p"}
ANOTHERS = {"resource": "pods", "name": "q", "uid": "uid-q"}
SINCE = "1970-01-01T00:01:40Z"
"""The time on the clock: second 100."""
RESULTS: dict[str, Any] = an_allocation("a/d0")
TEN_MINUTES_NS = 600 * NS_PER_S
CONFLICT, LOST, BROKEN, REFUSED = (WriteFault("no", code) for code in (409, 0, 503, 422))


def a_version(number: int, **status: Any) -> ResourceClaim:
    """The claim as the server has it, with its finalizer."""
    return a_claim("c", status=status, metadata={"resourceVersion": str(number), "finalizers": [FINALIZER]})


class Binding:
    """The work for one pod, and the server that answers it."""

    def __init__(
        self,
        *claims: ResourceClaim,
        allocates: bool = True,
        timeout_ns: int | None = TEN_MINUTES_NS,
        **state: Any,
    ) -> None:
        self.now_ns = 100 * NS_PER_S
        self.cluster = a_cluster(*(claim for claim in claims if not claim.name.startswith("<")))
        self.ledger = self.cluster.claims
        self.wanted: list[Intent] = []
        self.activated: list[str] = []
        self.metrics = MetricRegistry(CATALOGUE)
        self.state = ClaimState(list(claims), **state)
        if allocates:
            for index, claim in enumerate(claims):
                allocation = msgspec.convert(RESULTS, Allocation)
                self.state.allocations[index] = allocation
                self.ledger.begin(allocated(claim, allocation))
        services = SchedulerServices(
            self.cluster,
            now_ns=lambda: self.now_ns,
            want=self.wanted.append,
            activate=lambda pods: self.activated.extend(pod.name for pod in pods),
        )
        metrics = ClaimMetrics(Handle(metrics=self.metrics))
        context = a_context(self.cluster, POD)
        self.work: Generator[Any, Any, Any] = ClaimWork(context, self.state, services, timeout_ns, metrics).run("a")

    def step(self, answer: KubeObject | WriteFault | None = None) -> Any:
        """What comes next: a write, a pause, or that the work is done."""
        try:
            return self.work.send(answer)
        except StopIteration as end:
            assert end.value is None
            return "done"

    def error(self, answer: KubeObject | WriteFault | None = None) -> str:
        with pytest.raises(PluginError) as raised:
            self.work.send(answer)
        return str(raised.value)

    def late(self, write: Any, answer: KubeObject | WriteFault | None) -> None:
        assert isinstance(write, Write) and write.late is not None
        write.late(answer)


def status_of(write: Any) -> Any:
    """The status that a write of the claim's status has."""
    assert isinstance(write, Write) and isinstance(write.body, dict)
    assert (write.method, write.kind, write.name, write.subresource) == ("PATCH", ResourceClaim, "c", "status")
    return write.body["status"]


def is_read(write: Any) -> bool:
    return isinstance(write, Write) and (write.method, write.name, write.body, write.subresource) == (
        *("PATCH", "c", {}, ""),
    )


def pauses(pause: object, seconds: float) -> bool:
    return pause == Pause(100 * NS_PER_S + int(seconds * NS_PER_S))


# ---- what is written


def test_the_finalizer_comes_first_and_then_allocation_and_reservation_for_the_version_that_has_it() -> None:
    binding = Binding(a_claim("c", metadata={"resourceVersion": "7"}))
    first = binding.step()
    assert first.body == {"metadata": {"finalizers": [FINALIZER], "resourceVersion": "7"}}
    second = binding.step(a_version(8))
    assert second.body == {
        "metadata": {"resourceVersion": "8"},
        "status": {"allocation": {**RESULTS, "allocationTimestamp": SINCE}, "reservedFor": [MINE]},
    }
    assert binding.ledger.pending_ids() == {"uid-c"}
    done = a_version(9, allocation=RESULTS, reservedFor=[MINE])
    assert binding.step(done) == "done"
    assert binding.ledger.pending_ids() == set()
    assert binding.state.claims == [done] == [binding.ledger.get("default/c")]


def test_v137_17_2_allocations_are_pending_until_all_claims_of_the_pod_are_bound() -> None:
    other = a_claim("d", metadata={"resourceVersion": "7", "finalizers": [FINALIZER]})
    for answer in (None, REFUSED):
        binding = Binding(a_version(7), other)
        binding.step()
        done = a_version(8, allocation=RESULTS, reservedFor=[MINE])
        assert binding.step(done).name == "d"
        assert binding.ledger.get("default/c") is done and binding.ledger.pending_ids() == {"uid-c", "uid-d"}
        if answer is None:
            status = {"allocation": RESULTS, "reservedFor": [MINE]}
            last = a_claim("d", metadata={"resourceVersion": "8", "finalizers": [FINALIZER]}, status=status)
            assert binding.step(last) == "done"
            assert binding.ledger.pending_ids() == set()
        else:
            assert binding.error(answer) == "add allocation and reservation to claim default/d: no"
            assert binding.ledger.pending_ids() == {"uid-c"}, "the failure path gives it back"


def test_v137_17_2_allocations_are_pending_while_devices_are_prepared() -> None:
    binding = Binding(a_version(7))
    binding.step()
    waiting = {**an_allocation("a/d0", bindingConditions=["ready"]), "allocationTimestamp": SINCE}
    pause = binding.step(a_version(8, allocation=waiting, reservedFor=[MINE]))
    assert isinstance(pause, Pause) and binding.ledger.pending_ids() == {"uid-c"}


def test_a_claim_with_its_finalizer_is_written_once() -> None:
    binding = Binding(a_version(7), timeout_ns=None)
    assert status_of(binding.step()) == {"allocation": RESULTS, "reservedFor": [MINE]}, "no time is counted"


def test_a_claim_that_has_its_devices_gets_the_reservation_and_the_time_if_it_has_none() -> None:
    binding = Binding(a_version(7, allocation=RESULTS, reservedFor=[ANOTHERS]), allocates=False)
    assert status_of(binding.step()) == {
        "allocation": {"allocationTimestamp": SINCE},
        "reservedFor": [ANOTHERS, MINE],
    }
    old = {**RESULTS, "allocationTimestamp": "1970-01-01T00:00:01Z"}
    binding = Binding(a_version(7, allocation=old), allocates=False)
    assert status_of(binding.step()) == {"reservedFor": [MINE]}
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False, timeout_ns=None)
    assert status_of(binding.step()) == {"reservedFor": [MINE]}


def test_a_claim_that_is_reserved_already_is_not_written() -> None:
    assert Binding(a_version(7, allocation=RESULTS, reservedFor=[MINE]), allocates=False).step() == "done"


def test_a_claim_is_reserved_for_the_group_where_it_is_the_groups() -> None:
    group = ClaimConsumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang")
    binding = Binding(a_version(7), group_consumers={0: group})
    assert status_of(binding.step())["reservedFor"] == [msgspec.to_builtins(group)]


def test_the_newest_claim_that_is_known_is_written() -> None:
    binding = Binding(a_version(7))
    binding.cluster.put(a_version(8, reservedFor=[ANOTHERS]))
    assert status_of(binding.step())["reservedFor"] == [ANOTHERS, MINE]
    binding = Binding(a_version(7))
    binding.cluster.put(a_claim("c", metadata={"uid": "another", "resourceVersion": "9"}))
    write = binding.step()
    assert write.body["metadata"] == {"resourceVersion": "7"}, "a claim of the same name is not it"


def test_a_claim_has_room_for_256_reservations() -> None:
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(253)]
    binding = Binding(a_version(7, allocation=RESULTS, reservedFor=users), allocates=False)
    turns = binding.ledger.turns
    turns.take("uid-c", "uid-x")
    binding.step()
    for i in range(5):
        turns.take("uid-c", f"w{i}", ClaimConsumer("", "pods", f"w{i}", f"w{i}"))
    turns.leave("uid-c", "uid-x", True)
    reserved = [each["uid"] for each in status_of(binding.step())["reservedFor"]]
    assert reserved[253:] == ["uid-p", "w0", "w1"]


# ---- answers


WHAT = "add allocation and reservation to claim default/c: no"


def test_after_a_conflict_the_claim_is_read_and_written_again_five_times_in_all() -> None:
    binding = Binding(a_version(7))
    for attempt in range(5):
        write = binding.step() if attempt == 0 else binding.step(a_version(7 + attempt))
        assert write.body["metadata"] == {"resourceVersion": str(7 + attempt)}
        if attempt < 4:
            assert pauses(binding.step(CONFLICT), 0.01)
            assert is_read(binding.step())
    assert pauses(binding.step(CONFLICT), 0.01)
    assert binding.error() == WHAT
    assert binding.ledger.pending_ids() == set()


def test_other_refusals_end_the_binding_at_once() -> None:
    binding = Binding(a_version(7))
    binding.step()
    assert binding.error(REFUSED) == WHAT
    binding = Binding(a_claim("c"))
    binding.step()
    assert binding.error(REFUSED) == "add finalizer to claim default/c: no"
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    binding.step()
    assert binding.error(REFUSED) == "add reservation to claim default/c: no"
    assert binding.ledger.pending_ids() == set()


@pytest.mark.parametrize("fault", [LOST, BROKEN], ids=["no answer", "a fault of the server"])
def test_a_write_that_may_have_been_carried_out_is_looked_up(fault: WriteFault) -> None:
    done = a_version(9, allocation=RESULTS, reservedFor=[MINE])
    binding = Binding(a_version(7))
    binding.step()
    assert pauses(binding.step(fault), 1)
    assert is_read(binding.step())
    assert binding.step(done) == "done", "it was carried out"
    binding = Binding(a_version(7))
    binding.step()
    binding.step(fault)
    binding.step()
    assert status_of(binding.step(a_version(8)))["reservedFor"] == [MINE], "it was not"


def test_a_write_that_is_in_doubt_to_the_end_is_looked_up_once_more() -> None:
    for last, outcome in ((a_version(9, allocation=RESULTS, reservedFor=[MINE]), "done"), (a_version(9), WHAT)):
        binding = Binding(a_version(7))
        for attempt in range(5):
            binding.step() if attempt == 0 else binding.step(a_version(7))
            assert pauses(binding.step(LOST), 1)
            assert is_read(binding.step())
        assert (binding.step(last) if outcome == "done" else binding.error(last)) == outcome
        assert binding.ledger.pending_ids() == set()


def test_an_allocation_of_others_is_not_taken_for_ones_own() -> None:
    for status in (
        {"allocation": an_allocation("a/d1"), "reservedFor": [MINE]},
        {"allocation": RESULTS, "reservedFor": [ANOTHERS]},
    ):
        binding = Binding(a_version(7))
        binding.step()
        binding.step(LOST)
        binding.step()
        assert binding.error(a_version(9, **status)) == "claim default/c got allocated elsewhere in the meantime"


def test_a_read_that_fails_is_tried_each_second_until_there_is_an_answer() -> None:
    binding = Binding(a_version(7))
    binding.step()
    binding.step(CONFLICT)
    binding.step()
    for _ in range(9):
        assert pauses(binding.step(LOST), 1)
        assert is_read(binding.step())
    assert binding.error(WriteFault("it is gone", 404)) == "get updated claim default/c after conflict: it is gone"


CHANGED: dict[str, tuple[ResourceClaim, str]] = {
    "another claim": (
        a_claim("c", metadata={"uid": "another"}),
        "claim default/c got deleted in the meantime",
    ),
    "a claim that is going": (
        a_claim("c", metadata={"deletionTimestamp": SINCE}),
        "claim default/c got deleted in the meantime",
    ),
    "a claim that others have allocated": (
        a_version(9, allocation=RESULTS),
        "claim default/c got allocated elsewhere in the meantime",
    ),
}


@pytest.mark.parametrize(("found", "text"), CHANGED.values(), ids=CHANGED.keys())
def test_what_others_did_meanwhile_ends_the_binding(found: ResourceClaim, text: str) -> None:
    binding = Binding(a_version(7))
    binding.step()
    binding.step(CONFLICT)
    binding.step()
    assert binding.error(found) == text


def test_a_claim_that_lost_its_devices_is_told_only_where_time_is_counted() -> None:
    for timeout_ns in (TEN_MINUTES_NS, None):
        binding = Binding(a_version(7, allocation=RESULTS), allocates=False, timeout_ns=timeout_ns)
        binding.step()
        binding.step(CONFLICT)
        binding.step()
        if timeout_ns is None:
            assert status_of(binding.step(a_version(8))) == {"reservedFor": [MINE]}
        else:
            assert binding.error(a_version(8)) == "claim default/c got deallocated elsewhere in the meantime"


def test_a_reservation_that_another_pod_wrote_along_is_found() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    binding.step()
    binding.step(CONFLICT)
    binding.step()
    assert binding.step(a_version(9, allocation=RESULTS, reservedFor=[MINE])) == "done"


def test_of_an_allocation_that_a_group_shares_the_reservation_is_left_if_another_member_wrote_it() -> None:
    binding = Binding(a_version(7), offered={0})
    for pod in ("uid-p", "uid-q"):
        binding.ledger.share("uid-c", pod)
    assert "allocation" in status_of(binding.step())
    binding.step(CONFLICT)
    binding.step()
    since = {**RESULTS, "allocationTimestamp": SINCE}
    assert status_of(binding.step(a_version(8, allocation=since))) == {"reservedFor": [MINE]}
    assert binding.step(a_version(9, allocation=since, reservedFor=[MINE])) == "done"
    assert binding.ledger.pending_ids() == set(), "no member has to count on it any more"


# ---- reservations that are on their way out


def test_a_pod_waits_until_its_own_reservation_is_given_back() -> None:
    claim = a_version(7, allocation=RESULTS, reservedFor=[MINE])
    binding = Binding(claim, allocates=False)
    answered = binding.ledger.give_back(claim, "uid-p")
    for _ in range(2):
        assert binding.step() == Pause(None, frozenset([(ResourceClaim, "default/c")]))
    answered(a_version(8, allocation=RESULTS))
    assert status_of(binding.step())["reservedFor"] == [MINE]


def test_a_pod_waits_for_its_turn() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    turns = binding.ledger.turns
    assert turns.take("uid-c", "uid-q")
    assert binding.step() == Pause(None, frozenset([(ResourceClaim, "default/c")]))
    assert [each.uid for each in turns.consumers("uid-c")] == ["uid-p"], "the other pod may write it along"
    assert isinstance(binding.step(), Pause)
    turns.leave("uid-c", "uid-q", True)
    binding.cluster.put(a_version(8, allocation=RESULTS, reservedFor=[ANOTHERS]))
    assert status_of(binding.step())["reservedFor"] == [ANOTHERS, MINE]


def test_a_pod_that_wrote_its_reservation_itself_keeps_it_whoever_writes_it_along() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    mine = ClaimConsumer("", "pods", "p", "uid-p")
    binding.ledger.turns.begin("uid-c", [mine])
    binding.step()
    assert binding.step(a_version(8, allocation=RESULTS, reservedFor=[MINE])) == "done"
    assert binding.ledger.turns.end("uid-c", [mine]) == []


def test_a_pod_whose_reservation_another_wrote_along_keeps_it() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    mine, turns = ClaimConsumer("", "pods", "p", "uid-p"), binding.ledger.turns
    turns.take("uid-c", "uid-q")
    binding.step()
    turns.begin("uid-c", [mine])
    binding.cluster.put(a_version(8, allocation=RESULTS, reservedFor=[ANOTHERS, MINE]))
    assert binding.step() == "done"
    assert turns.end("uid-c", [mine]) == [] and list(turns.consumers("uid-c")) == []


def test_a_pod_that_brings_an_allocation_is_written_by_no_other() -> None:
    binding = Binding(a_version(7))
    binding.ledger.turns.take("uid-c", "uid-q")
    assert isinstance(binding.step(), Pause)
    assert list(binding.ledger.turns.consumers("uid-c")) == []


# ---- what is in doubt when the work is stopped


def stopped(binding: Binding, is_gone: bool = False) -> None:
    if is_gone:
        with pytest.raises(PodGone):
            binding.work.throw(PodGone())
    else:
        binding.work.close()


@pytest.mark.parametrize("is_gone", [False, True])
def test_devices_stay_taken_until_the_answer_to_the_last_write_comes(is_gone: bool) -> None:
    for answer in (a_version(9, allocation=RESULTS, reservedFor=[MINE]), REFUSED, None):
        binding = Binding(a_version(7))
        write = binding.step()
        stopped(binding, is_gone)
        assert binding.ledger.pending_ids() == {"uid-c"} and binding.wanted == []
        binding.late(write, answer)
        assert binding.ledger.pending_ids() == set()
        assert binding.activated == ["p"]
        assert bool(binding.ledger.exclusive) is isinstance(answer, ResourceClaim)


def test_a_late_answer_that_is_not_to_be_relied_on_leads_to_reads_of_the_claim() -> None:
    binding = Binding(a_version(7))
    write = binding.step()
    stopped(binding)
    for reads in range(1, 6):
        binding.late(write, LOST)
        assert len(binding.wanted) == reads and is_read(binding.wanted[-1])
        assert binding.ledger.pending_ids() == {"uid-c"} and binding.activated == []
        write = binding.wanted[-1]
    binding.late(write, LOST)
    assert len(binding.wanted) == 5
    assert binding.ledger.pending_ids() == set() and binding.activated == ["p"]


def test_a_claim_in_doubt_between_two_writes_is_read() -> None:
    binding = Binding(a_version(7))
    binding.step()
    binding.step(LOST)
    stopped(binding)
    assert binding.ledger.pending_ids() == {"uid-c"}
    (question,) = binding.wanted
    assert is_read(question)
    binding.late(question, a_version(9))
    assert binding.ledger.pending_ids() == set()


def test_a_claim_whose_write_was_refused_is_not_in_doubt() -> None:
    binding = Binding(a_version(7))
    binding.step()
    binding.step(CONFLICT)
    stopped(binding)
    assert (binding.ledger.pending_ids(), binding.wanted) == (set(), [])


def test_a_reservation_alone_is_not_in_doubt() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    write = binding.step()
    stopped(binding)
    assert binding.ledger.pending_ids() == set()
    binding.late(write, a_version(9, allocation=RESULTS, reservedFor=[MINE]))
    assert binding.activated == ["p"]


def test_reservations_of_pods_that_stopped_meanwhile_are_given_back() -> None:
    binding = Binding(a_version(7, allocation=RESULTS), allocates=False)
    turns = binding.ledger.turns
    assert turns.take("uid-c", "uid-x")
    binding.step()
    assert not turns.take("uid-c", "uid-q", ClaimConsumer("", "pods", "q", "uid-q"))
    turns.leave("uid-c", "uid-x", True)
    assert status_of(binding.step())["reservedFor"] == [MINE, ANOTHERS]
    turns.leave("uid-c", "uid-q", False)
    assert binding.step(a_version(9, allocation=RESULTS, reservedFor=[MINE, ANOTHERS])) == "done"
    (patch,) = binding.wanted
    assert isinstance(patch, Write) and isinstance(patch.body, dict)
    assert patch.body["status"] == {"reservedFor": [{"$patch": "delete", "uid": "uid-q"}]}


# ---- the claim for extended resources

GPU = "example.com/gpu"


def an_extended(**more: Any) -> Binding:
    pod = a_pod("p", requests={GPU: 1}, metadata={"uid": "uid-p"})
    unwritten = claim_for(pod, a_cluster().claims)
    mapping = RequestMapping(container_name="main", resource_name=GPU, request_name="r0")
    node_claim = msgspec.structs.replace(unwritten, spec=a_claim("x", an_ask()).spec)
    return Binding(unwritten, extended=unwritten, node_claim=node_claim, mappings=[mapping], **more)


CREATED = (
    'dynamic_resource_allocation_resourceclaim_creates_total{{status="{status}",admin_access="false",'
    'owner_api_group="",owner_api_kind="Pod"}} 1'
)


def counted(binding: Binding) -> list[str]:
    binding.metrics.fold()
    return [line for line in binding.metrics.text().splitlines() if "resourceclaim_creates_total{" in line]


def test_the_claim_is_created_then_allocated_then_shown_then_named_in_the_pod() -> None:
    binding = an_extended()
    post = binding.step()
    assert (post.method, post.kind, post.name, post.body.spec) == (
        "POST",
        ResourceClaim,
        "",
        a_claim("x", an_ask()).spec,
    )
    assert binding.ledger.pending_ids() == {"<extended-resources>/uid-p"}
    made = a_claim("c", metadata={"resourceVersion": "1"})
    first = binding.step(made)
    assert counted(binding) == [CREATED.format(status="success")]
    assert binding.ledger.pending_ids() == {"uid-c"} and binding.state.claims == [made]
    assert first.body["metadata"]["finalizers"] == [FINALIZER]
    assert status_of(binding.step(a_version(2)))["reservedFor"] == [MINE]
    done = a_version(3, allocation=RESULTS, reservedFor=[MINE])
    pause = binding.step(done)
    assert pause == Pause(220 * NS_PER_S, frozenset([(ResourceClaim, "default/c")]))
    assert isinstance(binding.step(), Pause), "something else changed"
    binding.cluster.put(made)
    patch = binding.step()
    assert (patch.kind, patch.name, patch.body["status"]["extendedResourceClaimStatus"]["resourceClaimName"]) == (
        *(Pod, "p", "c"),
    )
    assert binding.ledger.pending_ids() == {"uid-c"}
    assert binding.step(a_pod("p")) == "done"
    assert binding.ledger.pending_ids() == set()


def test_a_claim_that_is_never_shown_is_taken_as_shown_after_two_minutes() -> None:
    binding = an_extended()
    for answer in (None, a_version(1)):
        binding.step(answer)
    assert isinstance(binding.step(a_version(2, allocation=RESULTS, reservedFor=[MINE])), Pause)
    binding.now_ns = 220 * NS_PER_S - 1
    assert isinstance(binding.step(), Pause)
    binding.now_ns = 220 * NS_PER_S
    assert binding.step().kind is Pod
    text = "update pod default/p ExtendedResourceClaimStatus: no"
    assert binding.error(REFUSED) == text


def test_another_claim_of_that_name_ends_the_wait_for_it() -> None:
    binding = an_extended()
    binding.step()
    binding.step(a_version(1))
    binding.step(a_version(2, allocation=RESULTS, reservedFor=[MINE]))
    binding.cluster.put(a_claim("c", metadata={"uid": "another"}))
    assert binding.step().kind is Pod


def test_a_claim_that_cannot_be_created_is_told_and_counted() -> None:
    binding = an_extended()
    binding.step()
    assert binding.error(REFUSED) == "create claim for extended resources default/: no"
    assert counted(binding) == [CREATED.format(status="failure")]
    assert binding.ledger.pending_ids() == set()


def test_a_creation_that_got_no_answer_cannot_be_read_by_name() -> None:
    binding = an_extended()
    post = binding.step()
    stopped(binding)
    assert binding.ledger.pending_ids() == {"<extended-resources>/uid-p"}
    binding.late(post, LOST)
    assert (binding.wanted, binding.ledger.pending_ids(), binding.activated) == ([], set(), ["p"])


def test_without_devices_to_serve_it_the_claim_is_not_created() -> None:
    assert an_extended(allocates=False).step() == "done"


# ---- after the claims


def test_what_devices_take_from_the_node_is_written_into_the_pod() -> None:
    taken = [a_status("c", ["main"], cpu="1")]
    claim = a_version(7, allocation=RESULTS, reservedFor=[MINE])
    binding = Binding(claim, allocates=False, node_resources=taken)
    write = binding.step()
    assert (write.kind, write.name) == (Pod, "p")
    assert binding.step(a_pod("p")) == "done"
    binding = Binding(claim, allocates=False, node_resources=taken)
    binding.step()
    assert binding.error(REFUSED) == "updating pod default/p NodeAllocatableResourceClaimStatuses: no"


def test_the_pod_waits_for_devices_that_must_be_prepared_unless_the_gate_is_off() -> None:
    waiting = {**an_allocation("a/d0", bindingConditions=["ready"]), "allocationTimestamp": SINCE}
    claims = (a_version(7, allocation=waiting, reservedFor=[MINE]),)
    binding = Binding(*claims, allocates=False)
    assert isinstance(binding.step(), Pause)
    (event,) = binding.wanted
    note = "waiting for binding conditions for device on node a"
    assert event == Record(POD, "Normal", "BindingConditionsPending", "Scheduling", note)
    off = Binding(*claims, allocates=False, timeout_ns=None)
    assert (off.step(), off.wanted) == ("done", [])


def test_claims_are_bound_in_the_order_of_the_pod() -> None:
    first = a_version(7, allocation=RESULTS)
    second = a_claim("d", status={"allocation": an_allocation("a/d1")}, metadata={"resourceVersion": "3"})
    binding = Binding(first, second, allocates=False)
    assert binding.step().name == "c"
    write = binding.step(a_version(8, allocation=RESULTS, reservedFor=[MINE]))
    assert (write.name, write.body["metadata"]) == ("d", {"resourceVersion": "3"})
