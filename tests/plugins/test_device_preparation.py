"""The wait for devices that must be prepared, step by step: when it ends, when it looks again, and what is recorded of it."""

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from build import a_cluster
from device_building import DRIVER, a_claim, an_allocation
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.points import Handle, Pause, PodGone, SchedulerServices
from mooring.framework.contract.status import PluginError
from mooring.framework.profile.metric_catalogue import CATALOGUE
from mooring.kit.clock import NS_PER_S
from mooring.kit.metrics import MetricRegistry
from mooring.model.devices import ResourceClaim
from mooring.plugins.devices.allocation import ClaimMetrics
from mooring.plugins.devices.claim_work import wait_until_prepared
from mooring.plugins.devices.device_claims import UNWRITTEN, ClaimState

READY: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
START_S = 1000


def a_waiting(name: str, *conditions: str, since: str | None = None) -> ResourceClaim:
    """A claim whose device reports these conditions; it was allocated at that time."""
    allocation = {**an_allocation(f"pool/{name}", **READY), **({"allocationTimestamp": since} if since else {})}
    reported = [{"type": each, "status": "True", "reason": "Why", "message": "so"} for each in conditions]
    device = {"driver": DRIVER, "pool": "pool", "device": name, "conditions": reported}
    return a_claim(name, status={"allocation": allocation, "devices": [device]})


class Waiting:
    """One wait of 12 seconds, on a clock that goes when it is told to."""

    def __init__(self, *claims: ResourceClaim, shown: tuple[ResourceClaim, ...] | None = None) -> None:
        self.now_s = START_S
        self.cluster: Cluster = a_cluster(*(claims if shown is None else shown))
        self.metrics = MetricRegistry(CATALOGUE)
        self.state = ClaimState(list(claims))
        services = SchedulerServices(self.cluster, now_ns=lambda: self.now_s * NS_PER_S)
        handle = Handle(metrics=self.metrics, services=services)
        self.work: Generator[Any, Any, None] = wait_until_prepared(
            self.state, self.cluster.claims, services, ClaimMetrics(handle), 12 * NS_PER_S
        )

    def step(self) -> int | str:
        """The second at which it looks again, or that it is over."""
        try:
            pause = next(self.work)
        except StopIteration:
            return "prepared"
        assert isinstance(pause, Pause) and pause.until_ns is not None
        assert pause.until_ns % NS_PER_S == 0
        return pause.until_ns // NS_PER_S

    def recorded(self) -> list[str]:
        """The waits, as `status seconds`, all devices together."""
        self.metrics.fold()
        head = "scheduler_dra_bindingconditions_wait_duration_seconds_sum"
        lines = [line for line in self.metrics.text().splitlines() if line.startswith(head)]
        return [line.partition('status="')[2].replace('"}', "") for line in lines]


def test_it_looks_every_five_seconds_until_the_device_is_prepared() -> None:
    waiting = Waiting(a_waiting("c"))
    assert waiting.step() == START_S + 5
    waiting.now_s += 5
    assert waiting.step() == START_S + 10
    waiting.cluster.put(a_waiting("c", "ready"))
    waiting.now_s += 2
    assert waiting.step() == "prepared"
    assert waiting.state.claims == [a_waiting("c", "ready")], "the binding goes on with the newest claim"
    assert waiting.recorded() == ["success 7"]


def test_changes_of_any_of_its_claims_wake_it() -> None:
    pause = next(Waiting(a_waiting("c"), a_waiting("d")).work)
    assert pause.on == {(ResourceClaim, "default/c"), (ResourceClaim, "default/d")}


def test_all_claims_must_be_prepared() -> None:
    waiting = Waiting(a_waiting("c", "ready"), a_waiting("d"))
    assert waiting.step() == START_S + 5
    waiting.cluster.put(a_waiting("d", "ready"))
    assert waiting.step() == "prepared"


def test_it_ends_at_the_deadline() -> None:
    waiting = Waiting(a_waiting("c"))
    waiting.step()
    waiting.now_s = START_S + 11
    assert waiting.step() == START_S + 12, "the last look is at the deadline"
    waiting.now_s = START_S + 12
    with pytest.raises(PluginError) as raised:
        waiting.step()
    assert str(raised.value) == "device binding timeout: context deadline exceeded"
    assert waiting.recorded() == ["timeout 12"]


def test_it_ends_when_the_time_since_the_allocation_is_up() -> None:
    waiting = Waiting(a_waiting("c", "ready"), a_waiting("d", since="1970-01-01T00:16:30Z"))  # second 990
    assert waiting.step() == START_S + 5
    waiting.now_s += 3
    with pytest.raises(PluginError) as raised:
        waiting.step()
    assert str(raised.value) == "device binding timeout: claim=d"
    assert waiting.recorded() == ["timeout 6"], "three seconds for each of two devices"


def test_it_ends_when_the_driver_reports_a_failure() -> None:
    waiting = Waiting(a_waiting("c"))
    waiting.step()
    waiting.cluster.put(a_waiting("c", "broken"))
    with pytest.raises(PluginError) as raised:
        waiting.step()
    assert str(raised.value) == 'device binding failed: claim=c, reason=Why, message="so"'
    assert waiting.recorded() == ["failure 0"]


def test_it_ends_when_a_claim_is_gone() -> None:
    waiting = Waiting(a_waiting("c"), shown=())
    with pytest.raises(PluginError) as raised:
        waiting.step()
    assert str(raised.value) == 'could not find ResourceClaim "default/c"'
    assert waiting.recorded() == ["error 0"]


def test_a_wait_that_is_stopped_counts_as_an_error() -> None:
    for stop in (lambda work: work.close(), lambda work: _throw(work)):
        waiting = Waiting(a_waiting("c"))
        waiting.step()
        waiting.now_s += 4
        stop(waiting.work)
        assert waiting.recorded() == ["error 4"]


def _throw(work: Generator[Any, Any, None]) -> None:
    with pytest.raises(PodGone):
        work.throw(PodGone())


def test_a_claim_that_was_never_written_is_not_waited_for() -> None:
    unwritten = msgspec.structs.replace(
        a_waiting("x"), metadata=msgspec.structs.replace(a_waiting("x").metadata, name=UNWRITTEN)
    )
    waiting = Waiting(unwritten, a_waiting("c"), shown=(a_waiting("c"),))
    assert waiting.step() == START_S + 5
    waiting.cluster.put(a_waiting("c", "ready"))
    assert waiting.step() == "prepared"
