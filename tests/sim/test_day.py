"""Days: waits, runs, preemption and utilisation, with numbers that can be checked by hand."""

from typing import Any

import numpy as np
import pytest

from build import a_node, a_pod
from mooring.framework import config as configuration
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import Codes, FilterPlugin, Plugin, PreBindPlugin, Rows
from mooring.framework.contract.status import Rejection, curable
from mooring.inputs.arrivals import arrivals_of
from mooring.inputs.input_errors import NoSuchPod
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.sim import day as day_module
from mooring.sim import gauge as gauge_module
from mooring.sim.day import Day, DayReport
from mooring.state.scheduler_assembly import all_plugins


def a_day(*entries: dict[str, Any], objects: list[KubeObject] | None = None) -> Day:
    there = [a_node("n", cpu="2")] if objects is None else objects
    return Day(there, arrivals_of(entries, there), configuration.default())


def run(*entries: dict[str, Any], until_s: float | None = None, objects: list[KubeObject] | None = None) -> DayReport:
    day = a_day(*entries, objects=objects)
    report = day.run(None if until_s is None else round(until_s * NS_PER_S))
    assert day.simulated.scheduler.check() == []
    return report


FIRST = {"at": 0, "run": "10s", "name": "first", "cpu": 2}
SECOND = {"at": "4s", "run": "10s", "name": "second", "cpu": 1}
"""The node has two CPUs: the second waits for the first to finish. An attempt takes a millisecond.

    0.000  first arrives          10.001  first finishes
    0.001  first is bound         10.002  second is bound
    4.000  second arrives         20.002  second finishes
"""


def test_a_pod_waits_until_another_has_finished() -> None:
    report = run(FIRST, SECOND)
    (waits,) = report.waits
    assert waits.waited_s == pytest.approx([0.001, 6.002])
    assert (waits.priority, waits.pending, waits.preempted) == (0, 0, 0)
    assert report.simulated_s == pytest.approx(20.002)
    assert (report.arrived, report.planned, report.finished, report.attempts) == (2, 2, 2, 3)
    assert report.placements == {"default/first-0": "n", "default/second-0": "n"}
    assert (report.notes, report.rescued, report.preempted) == ([], 0, [])


def test_quantiles_are_those_of_all_waits() -> None:
    (waits,) = run(FIRST, SECOND).waits
    assert waits.quantile_s(0.5) == pytest.approx((0.001 + 6.002) / 2)
    assert waits.quantile_s(1.0) == pytest.approx(6.002)
    (pending,) = run({"cpu": 9}).waits
    assert pending.quantile_s(0.5) is None, "nobody was placed"


def test_utilisation_is_amount_times_duration() -> None:
    report = run(FIRST, SECOND)
    assert report.mean_used["cpu"] == pytest.approx((1.0 * 10 + 0.5 * 10) / 20.002)
    assert report.mean_used["memory"] == 0


def test_spans_have_averages_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_module, "SPANS", 2)
    first, second = run(FIRST, SECOND).spans
    assert (first.from_s, second.from_s) == pytest.approx((0, 10.001))
    assert first.used["cpu"] == pytest.approx(10 / 10.001)
    assert second.used["cpu"] == pytest.approx(5 / 10.001)
    assert first.pending == pytest.approx((0.001 + 6.001) / 10.001)
    assert second.pending == pytest.approx(0.001 / 10.001)


def test_a_long_curve_is_blurred_and_keeps_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"at": i, "run": f"{1 + i % 7}s", "name": "p", "cpu": "100m"} for i in range(100)]
    exact = run(*entries)
    monkeypatch.setattr(gauge_module, "POINTS", 10)
    blurred = run(*entries)
    assert blurred.mean_used == pytest.approx(exact.mean_used)
    assert np.mean([span.used["cpu"] for span in blurred.spans]) == pytest.approx(exact.mean_used["cpu"])


def test_time_ends_when_it_is_up() -> None:
    report = run(FIRST, SECOND, {"at": "1h", "name": "late"}, until_s=7)
    assert report.simulated_s == 7
    assert (report.arrived, report.planned, report.finished, report.pending) == (2, 3, 0, 1)
    assert report.waits[0].pending == 1
    assert report.mean_used["cpu"] == pytest.approx(6.999 / 7)
    assert report.notes == ["1 pod would have arrived later"]


def test_time_goes_on_until_it_is_up_though_nothing_happens() -> None:
    report = run(FIRST, until_s=100)
    assert report.simulated_s == 100
    assert report.mean_used["cpu"] == pytest.approx(10 / 100)


def test_pods_without_a_duration_run_for_ever() -> None:
    report = run({"cpu": 2}, {"at": "1m", "cpu": 1, "name": "other"})
    assert (report.finished, report.pending) == (0, 1)
    assert report.simulated_s == pytest.approx(60.001), "nothing is left to happen after the last attempt"


def test_a_preempted_pod_is_gone_and_does_not_finish() -> None:
    """5.001 the urgent one is tried and makes room, 5.002 it is bound, 15.002 it finishes."""
    report = run(
        {"run": "100s", "name": "small", "cpu": 2},
        {"at": "5s", "run": "10s", "name": "urgent", "cpu": 2, "priority": 9},
    )
    urgent, small = report.waits
    assert (urgent.priority, urgent.preempted) == (9, 0)
    assert urgent.waited_s == pytest.approx([0.002])
    assert (small.priority, small.preempted, small.pending) == (0, 1, 0)
    assert [(e.pod.key, e.node, e.preemptor) for e in report.preempted] == [
        ("default/small-0", "n", "default/urgent-0")
    ]
    assert report.finished == 1
    assert report.simulated_s == pytest.approx(15.002), "the clock does not wait for a pod that is gone"


def test_whoever_arrives_during_an_attempt_is_not_kept_waiting_by_the_rest() -> None:
    objects: list[KubeObject] = [a_node("n", cpu="9")]
    entries = [{"count": 3, "name": "p", "cpu": 1}, {"at": 0.0015, "name": "urgent", "cpu": 1, "priority": 9}]
    report = run(*entries, objects=objects)
    assert [*report.placements] == ["default/p-0", "default/p-1", "default/urgent-0", "default/p-2"]
    assert report.waits[0].waited_s == pytest.approx([0.0015]), "since it arrived, not since it was noticed"


def test_pods_that_are_pending_in_the_input_arrive_at_the_beginning() -> None:
    pending = a_pod("waiting", cpu="1", schedulerName="default-scheduler")
    running = a_pod("running", cpu="1", nodeName="n")
    done = a_pod("done", cpu="1", nodeName="n", status={"phase": "Succeeded"})
    report = run(SECOND, objects=[a_node("n", cpu="3"), pending, running, done])
    assert report.arrived == 2
    assert report.waits[0].waited_s == pytest.approx([0.001, 0.001])
    assert report.notes == ["1 finished pod left out: finished pods use no resources"]
    assert report.mean_used["cpu"] == pytest.approx((2 * 14.001 - 0.001 + 10) / 14.001 / 3)


def test_the_same_day_twice_is_the_same() -> None:
    nodes: list[KubeObject] = [a_node(f"n-{i}", cpu="4") for i in range(3)]
    entries = [
        {"every": "7s", "until": "3m", "count": 3, "name": "a", "cpu": "900m", "run": "40s"},
        {"every": "31s", "until": "3m", "name": "b", "cpu": 3, "run": "1m", "priority": 5},
    ]
    first, second = run(*entries, objects=nodes), run(*entries, objects=nodes)
    assert first == second
    assert first.preempted, "it is not a dull day"
    assert sum(first.placed_on().values()) == len(first.placements)


class Once(FilterPlugin):
    """Rejects a pod the first time and hears of nothing: only the flush of unschedulable pods helps."""

    name = "Once"
    seen = False

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        if context.pod.name != "odd-0" or self.seen:
            return None
        self.seen = True
        return np.ones(len(context.nodes.alive[rows]), np.int64)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable("not at first sight")

    def events(self) -> list[Registration]:
        return []


def with_plugin(plugin: type[Plugin], *entries: dict[str, Any]) -> Day:
    registry = all_plugins()
    registry.register(plugin)
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}]
    config = configuration.from_object({**header, "profiles": profiles})
    return Day([a_node("n")], arrivals_of(entries), config, registry)


def test_a_pod_that_nothing_woke_is_rescued_and_counted() -> None:
    report = with_plugin(Once, {"name": "odd", "cpu": 1}, {"name": "long", "cpu": 1, "run": "10m"}).run()
    assert report.rescued == 1
    assert report.waits[0].waited_s == pytest.approx([0.002, 330.001]), "the first flush after five minutes"


class Never(PreBindPlugin):
    name = "Never"

    def pre_bind(self, context: SchedulingContext, node_name: str) -> None:
        raise RuntimeError("never")


@pytest.mark.parametrize(
    ("limit", "value", "simulated_s"), [("PATIENCE_NS", 3600 * NS_PER_S, 3600), ("ATTEMPTS_A_POD", 20, 195)]
)
def test_a_day_of_vain_attempts_comes_to_an_end(
    limit: str, value: int, simulated_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_module, limit, value)
    day = with_plugin(Never, {"name": "p"})
    report = day.run()
    assert report.simulated_s == pytest.approx(simulated_s, abs=11)
    assert (report.pending, report.notes) == (
        1,
        ["stopped: the scheduler attempted the same pods again and again without success"],
    )


def test_a_story_is_told_of_a_pod_that_arrives() -> None:
    report = a_day(FIRST, SECOND).run(story="second-0")
    assert report.story is not None
    assert [str(moment) for moment in report.story.moments][-1] == (
        "00:00:10.002 attempt 2 (cycle 3): is bound to n"
    )  # fmt: skip
    with pytest.raises(NoSuchPod, match=r"^no pod 'third-0' in the input, which has 2 pods$"):
        a_day(FIRST, SECOND).run(story="third-0")


def test_progress_counts_arrivals() -> None:
    told: list[tuple[int, int]] = []
    a_day(FIRST, SECOND).run(on_progress=lambda done, total: told.append((done, total)))
    assert told[0] == (1, 2) and told[-1] == (2, 2)
    assert told == sorted(told)


def test_a_day_without_arrivals_is_short() -> None:
    report = run()
    assert (report.simulated_s, report.arrived, report.waits, report.spans, report.mean_used) == (0, 0, [], [], {})


def test_pods_find_the_namespaces_that_they_live_in() -> None:
    """Anti-affinity over namespaces by label: the namespaces of arrivals have their names for a label."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "two"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects: list[KubeObject] = [a_node("n", labels={"kubernetes.io/hostname": "n"})]
    entries: list[dict[str, Any]] = [
        {"name": "a", "namespace": "two", "labels": {"app": "a"}},
        {"at": 1, "name": "b", "namespace": "one", "pod": {"spec": {"affinity": affinity}}},
    ]
    assert run(*entries, objects=objects).pending == 1


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    """Or else a day of a million pods would need memory for all of them."""
    entries = [
        {"every": "10s", "until": "10m", "name": "short", "cpu": "100m", "run": "5s"},
        {"at": "2s", "every": "1m", "until": "10m", "name": "urgent", "cpu": 2, "run": "5s", "priority": 9},
    ]
    there = [a_node("n", cpu="2")]
    day = Day(there, arrivals_of(entries, there), configuration.default(), names_placements=False)
    report = day.run()
    assert (report.arrived, report.placed, report.pending, len(report.preempted)) == (71, 61, 0, 10)
    assert report.finished == 71 - len(report.preempted) < 71, "some are preempted"
    assert (day._stays, day._ends, report.placements) == ({}, [], {})
    assert report.placed_on() == {"n": 71}
    assert not day.simulated.driver.pods() and not day.simulated.scheduler.pods


def test_arrivals_need_not_be_in_order() -> None:
    late, early = arrivals_of([{"at": 5, "name": "late"}]), arrivals_of([{"name": "early"}])
    report = Day([a_node("n")], [*late, *early], configuration.default()).run()
    assert [*report.placements] == ["default/early-0", "default/late-0"]


def test_all_time_goes_to_some_part() -> None:
    report = run(FIRST, SECOND)
    assert [*report.parts_s] == [
        "set-up", "generating", "arrivals", "decisions", "queue and binding", "ends", "backoffs", "utilisation", "report",
    ]  # fmt: skip
    assert all(seconds > 0 for seconds in report.parts_s.values())
    assert report.peak_bytes is None or report.peak_bytes > 1 << 20
