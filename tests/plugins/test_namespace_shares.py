"""Costly searches for devices are charged to their namespace: others do not wait for them, and they come to an end."""

from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_allocation, an_ask, claiming
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.contract.status import OutOfEffort
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.devices import ResourceClaim
from mooring.plugins.devices import device_search_cache as shares
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.device_search_cache import (
    BURST,
    MODERATE_STEPS,
    ORDINARY_STEPS,
    DeviceSearchCache,
    NamespaceShares,
)
from mooring.plugins.devices.effort import Effort
from mooring.state.scheduler_assembly import build_scheduler

FULL = None


class PlainShares:
    """The twin: debts as exact numbers, repaid in equal parts until the first is free, then again."""

    def __init__(self) -> None:
        self.debts: dict[str, Fraction] = {}

    def charge(self, namespace: str, steps: int) -> None:
        if steps > ORDINARY_STEPS:
            self.debts[namespace] = self.debts.get(namespace, Fraction()) + steps

    def pass_time(self, ns: int) -> None:
        left = Fraction(ns * shares.REPAID_A_SECOND, NS_PER_S)
        while left and self.debts:
            part = min(left / len(self.debts), min(self.debts.values()))
            left -= part * len(self.debts)
            self.debts = {name: debt - part for name, debt in self.debts.items() if debt > part}


TURNS = st.tuples(st.sampled_from("abc"), st.integers(0, 2 * BURST), st.integers(0, 30 * NS_PER_S))


@given(st.lists(TURNS, max_size=30))
def test_namespaces_repay_in_equal_parts(turns: list[tuple[str, int, int]]) -> None:
    kept, plain, now_ns = NamespaceShares(), PlainShares(), START_NS
    for namespace, steps, pause_ns in turns:
        kept.charge(namespace, steps, now_ns)
        plain.charge(namespace, steps)
        now_ns += pause_ns
        plain.pass_time(pause_ns)
        for each in "abc":
            assert abs(kept.owed(each, now_ns) - plain.debts.get(each, 0)) < 1e-3
        assert abs(Fraction(kept.total, 10**9) - sum(plain.debts.values(), Fraction())) < Fraction(1, 1000)


def test_steps_of_two_microseconds_make_up_the_times_that_namespaces_may_use() -> None:
    """Four milliseconds are free, a tenth of a second is moderate, a second a burst; a tenth of each second is repaid."""
    steps = (ORDINARY_STEPS, MODERATE_STEPS, BURST, shares.REPAID_A_SECOND)
    assert [2 * each for each in steps] == [4_000, 100_000, 1_000_000, 100_000]


def test_time_that_runs_backwards_repays_nothing() -> None:
    kept = NamespaceShares()
    kept.charge("a", BURST, 10 * NS_PER_S)
    assert kept.owed("a", 0) == BURST
    assert kept.owed("a", NS_PER_S) == BURST - shares.REPAID_A_SECOND


def test_an_ordinary_search_is_free() -> None:
    kept = NamespaceShares()
    for _ in range(1000):
        kept.charge("a", ORDINARY_STEPS, 0)
    assert (kept.owed("a", 0), kept.allowance("a", 0)) == (0, FULL)


def test_a_namespace_that_owes_its_burst_waits_and_others_do_not() -> None:
    kept = NamespaceShares()
    kept.charge("a", BURST, 0)
    assert kept.allowance("a", 0) is FULL
    kept.charge("a", BURST, 0)
    assert (kept.allowance("a", 0), kept.allowance("b", 0)) == (ORDINARY_STEPS, MODERATE_STEPS)
    repaid_ns = BURST * NS_PER_S // shares.REPAID_A_SECOND
    assert (kept.allowance("a", repaid_ns), kept.allowance("b", repaid_ns)) == (FULL, FULL)


def test_a_namespace_that_owes_more_than_its_part_waits_for_those_that_owe_less() -> None:
    kept = NamespaceShares()
    kept.charge("a", BURST // 2 + 100_000, 0)
    assert kept.allowance("a", 0) is FULL
    kept.charge("b", ORDINARY_STEPS + 1, 0)
    assert (kept.allowance("a", 0), kept.allowance("b", 0)) == (ORDINARY_STEPS, FULL)


def test_a_namespace_that_owes_moderately_gets_a_moderate_number_of_steps_whatever_others_owe() -> None:
    kept = NamespaceShares()
    kept.charge("other", BURST + 1, 0)
    kept.charge("a", MODERATE_STEPS, 0)
    assert kept.allowance("a", 0) == MODERATE_STEPS
    kept.charge("b", MODERATE_STEPS + 1, 0)
    assert kept.allowance("b", 0) == ORDINARY_STEPS


# ---- The search

COSTLY = "lists.range(100).all(a, lists.range(100).all(b, a + b >= 0)) && device.attributes['gpu.example.com'].numa < 0"
"""Some 20,000 steps for each device."""
ROWS = np.arange(1, dtype=np.intp)


class Searching:
    """A node with ten devices of different kinds, and a clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        devices = [a_device(f"d{i}", numa=i) for i in range(10)]
        self.cluster = a_cluster(a_node("n0"), a_class(), a_slice("s", *devices, node="n0"))
        self.searches = DeviceSearchCache(DeviceFeatures(), 100_000, lambda: self.now_ns)

    def ask(self, claim: ResourceClaim) -> tuple[object, int]:
        """The codes, or that it timed out; and the steps that it took."""
        spent: list[int] = []
        spend = Effort.spend

        def counting(effort: Effort, steps: int) -> None:
            spent.append(steps)
            spend(effort, steps)

        with patch.object(Effort, "spend", counting):
            try:
                answer: object = self.searches.codes(self.cluster, [claim], ROWS).tolist()
            except OutOfEffort:
                answer = "timed out"
        return answer, sum(spent)


def in_namespace(name: str, *selectors: str) -> ResourceClaim:
    return a_claim("c", an_ask(1, *selectors), metadata={"namespace": name, "uid": f"uid-{name}"})


def test_a_namespace_that_has_used_up_its_share_gets_no_costly_search_until_time_has_passed() -> None:
    searching = Searching()
    searching.searches.shares.charge("a", 2 * BURST, searching.now_ns)
    answer, steps = searching.ask(in_namespace("a", COSTLY))
    assert answer == "timed out" and steps <= ORDINARY_STEPS
    answer, steps = searching.ask(in_namespace("a", "device.driver != ''"))
    assert answer == [0] and steps < 100, "a cheap one"
    searching.now_ns += 60 * NS_PER_S
    answer, steps = searching.ask(in_namespace("a", COSTLY))
    assert answer == "timed out" and steps > ORDINARY_STEPS, "it may begin again"


def test_a_search_that_was_cut_short_is_not_given_up_for_good() -> None:
    searching = Searching()
    searching.searches.shares.charge("a", 2 * BURST, searching.now_ns)
    many = a_claim("c", *(an_ask(3) for _ in range(5)), metadata={"namespace": "a"})
    answer, steps = searching.ask(many)
    assert (answer, steps <= ORDINARY_STEPS + 1) == ("timed out", True)
    searching.now_ns += 60 * NS_PER_S
    assert searching.ask(many)[1] > ORDINARY_STEPS


def test_a_costly_search_comes_to_an_end_although_others_are_costly_as_well() -> None:
    searching = Searching()
    claim = in_namespace("a", COSTLY)
    answers = []
    for second in range(60):
        searching.now_ns += NS_PER_S
        answers.append(searching.ask(claim)[0])
        for other in ("b", "c", "d"):
            searching.ask(in_namespace(other, COSTLY.replace("numa < 0", f"numa < -{second}")))
        if answers[-1] != "timed out":
            break
    assert answers[-1] == [1], "no device is selected"
    assert "timed out" in answers


def test_work_that_costs_nothing_upstream_is_charged_too() -> None:
    device = a_slice("s", a_device("d0", model="a" * 60), node="n0")
    searching = Searching()
    searching.cluster = a_cluster(a_node("n0"), a_class(), device)
    backtracking = "device.attributes['gpu.example.com'].model.matches('(a?){40}a{40}')"
    assert searching.ask(in_namespace("a", backtracking))[1] > 1_000


# ---- The queue


def steps_before_an_ordinary_pod(hostile: int) -> int:
    """How many steps are spent on others before a pod without claims is tried, which comes after so many hostile pods."""
    clock, spent = VirtualClock(START_NS), [0]
    written = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    timeout = [{"name": "DynamicResources", "args": {"filterTimeout": "100ms"}}]
    scheduler = build_scheduler(config.from_object({**written, "profiles": [{"pluginConfig": timeout}]}), clock)
    driver = Driver(clock, scheduler, with_versions=True)
    devices = [a_device(f"d{i}", numa=i) for i in range(100)]
    for item in (a_node("n0"), a_class(), a_slice("s", *devices, node="n0")):
        driver.create(item)
    for i in range(hostile):
        selector = f"lists.range(100).all(a, a >= 0) && device.attributes['gpu.example.com'].numa < -{i}"
        driver.create(a_claim(f"c{i}", an_ask(1, selector)))
        driver.create(claiming(a_pod(f"hostile-{i}", schedulerName="default-scheduler"), f"c{i}"))
    driver.create(a_pod("ordinary", schedulerName="default-scheduler"))
    spend = Effort.spend

    def counting(effort: Effort, steps: int) -> None:
        spent[0] += steps
        spend(effort, steps)

    with patch.object(Effort, "spend", counting):
        while (pod := driver.attempt_once()) is not None and pod.name != "ordinary":
            pass
    assert pod is not None
    return spent[0]


def test_an_ordinary_pod_does_not_wait_longer_for_forty_costly_pods_than_for_ten() -> None:
    small: dict[str, Any] = {"ORDINARY_STEPS": 40, "MODERATE_STEPS": 400, "BURST": 4_000, "REPAID_A_SECOND": 400}
    with patch.multiple(shares, **small):
        few, many = steps_before_an_ordinary_pod(10), steps_before_an_ordinary_pod(40)
    most = small["BURST"] + 4_000 + 300  # the last attempt that begins within the burst, and one evaluation beyond it
    assert few <= most + 10 * small["ORDINARY_STEPS"]
    assert many <= most + 40 * small["ORDINARY_STEPS"]


# ---- Self-checks


def test_a_question_of_a_self_check_costs_no_share_and_teaches_nothing() -> None:
    searching, claim = Searching(), in_namespace("a", COSTLY)
    kept = searching.searches.kept_only()
    for _ in range(3):
        with pytest.raises(OutOfEffort, match="^no attempt has searched devices for these claims$"):
            kept.codes(searching.cluster, [claim], ROWS)
    assert searching.searches.shares.owed("a", searching.now_ns) == 0 and not searching.searches.demands
    assert searching.ask(claim) == Searching().ask(claim), "the attempt costs what it costs without self-checks"


def test_a_self_check_sees_the_results_that_are_kept_and_changes_none() -> None:
    searching, claim = Searching(), in_namespace("a", "device.driver != ''")
    searching.ask(claim)
    (before,) = searching.searches.demands.values()
    assert searching.searches.kept_only().codes(searching.cluster, [claim], ROWS).tolist() == [0]
    searching.cluster.claims.begin(a_claim("other", status={"allocation": an_allocation("n0/d0")}))
    with pytest.raises(OutOfEffort):  # the result has gone
        searching.searches.kept_only().codes(searching.cluster, [claim], ROWS)
    assert list(searching.searches.demands.values()) == [before] and len(before.by_group) == 1
