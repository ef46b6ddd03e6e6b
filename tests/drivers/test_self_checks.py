"""Self-checks at an interval: what they log, count and mend, and that a check that fails stops nothing."""

import asyncio
import io
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from build import a_node
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.throttle import Timing
from mooring.drivers import self_checks
from mooring.drivers.live_service import LiveScheduler
from mooring.drivers.self_checks import (
    MAX_LOGGED,
    SHARE,
    CheckedScheduler,
    SelfCheckMetrics,
    SelfChecks,
    SelfCheckSettings,
)
from mooring.framework.config import default, from_object
from mooring.framework.profile.metric_catalogue import CATALOGUE
from mooring.kit.clock import NS_PER_S, SteadyClock
from mooring.kit.logs import Log, start_logs
from mooring.kit.metrics import MetricRegistry
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler, configuration_change
from self_checking import CheckedCluster, a, a_busy_cluster


class Checks:
    """Self-checks of a cluster on virtual time."""

    def __init__(self, cluster: CheckedCluster, *, repairs: bool = False) -> None:
        self.cluster = cluster
        self._stream = io.StringIO()
        self.logs = start_logs(logging.Logger("test_self_checks"), stream=self._stream, pid=1, verbosity=2)
        self.registry = MetricRegistry(CATALOGUE)
        self.woken = 0
        self.slept_s: list[float] = []
        checked = CheckedScheduler(cluster.scheduler, self._make, lambda: [cluster.driver.objects])
        self.fails = False
        self.during: Callable[[], None] | None = None
        """Called once, when the check rests for the first time."""
        timing = Timing(lambda: cluster.clock.now_ns() / NS_PER_S, self._sleep)
        settings, metrics = SelfCheckSettings(600, repairs), SelfCheckMetrics(self.registry)
        self.checks = SelfChecks(checked, settings, self.logs.log, metrics, timing=timing, wake=self._wake)

    def _make(self) -> Scheduler:
        if self.fails:
            raise ValueError("no plugins today")
        return self.cluster.a_scheduler()

    async def _sleep(self, for_s: float) -> None:
        self.slept_s.append(for_s)
        if self.during is not None:
            act, self.during = self.during, None
            act()
        self.cluster.clock.advance_ns(round(for_s * NS_PER_S))
        await asyncio.sleep(0)

    def _wake(self) -> None:
        self.woken += 1

    def run(self) -> list[str]:
        """The lines of one check, without times."""
        self._stream.seek(0)
        self._stream.truncate()
        asyncio.run(self.checks.check())
        lines = self._stream.getvalue().splitlines()
        return [line.partition("] ")[2] for line in lines if "] " in line]

    def metric(self, name: str, labels: str = "") -> str:
        series = f"mooring_self_check_{name}{labels} "
        return next(
            (line.removeprefix(series) for line in self.registry.text().splitlines() if line.startswith(series)), ""
        )


def test_a_clean_check_says_so_at_verbosity_2() -> None:
    checks = Checks(a_busy_cluster())
    (line,) = checks.run()
    assert line.startswith('"Self-check finished: no differences" seconds=')
    assert checks.metric("runs_total", '{result="clean"}') == "1"
    assert checks.metric("differences_total", '{kind="row"}') == "0"
    assert checks.metric("duration_seconds_count") == "1"
    assert checks.metric("stranded_pods") == "0"


def test_a_check_during_which_the_configuration_changes_is_void_and_the_next_one_is_clean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fresh scheduler was built with the configuration before: what differs from it is no fault."""
    cluster = a_busy_cluster()
    checks = Checks(cluster)
    monkeypatch.setattr(self_checks, "SLICE_S", 0.0)  # the check rests before it ends, also on a fast machine
    packed = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = from_object({**header, "profiles": [{"pluginConfig": [packed]}]})

    def change() -> None:
        swap = configuration_change(cluster.scheduler, config)
        cluster.scheduler.handle(swap)
        checks.checks.follow(swap)

    checks.during = change
    assert checks.run() == []
    assert checks.metric("runs_total", '{result="void"}') == "1"
    cluster.a_scheduler = lambda: build_scheduler(config, cluster.clock)  # type: ignore[method-assign]
    assert [line for line in checks.run() if "differences" not in line] == []
    assert checks.metric("runs_total", '{result="clean"}') == "1"


def test_a_difference_is_one_line_with_both_stories() -> None:
    cluster = a_busy_cluster()
    cluster.nodes.amounts.requested[0, cluster.nodes.row_book["n2"]] += 500
    checks = Checks(cluster)
    lines = checks.run()
    assert lines[0] == (
        '"Self-check found a difference" kind="row" subject="Node n2" what="requested cpu" believed="1200" fresh="700"'
    )
    assert lines[-1].startswith('"Self-check finished" differences=')
    assert checks.metric("differences_total", '{kind="row"}') == "3", "and the floats that follow from it"
    assert checks.metric("runs_total", '{result="differences"}') == "1"
    assert checks.woken == 0, "nothing was mended"
    assert cluster.check() != []


def test_a_stranded_pod_is_named_and_mended() -> None:
    cluster = a_busy_cluster()
    (entry,) = cluster.core.queue.places.unschedulable.filed["default/big"].entry.entries
    entry.reject_by(["NodeResourcesFit"])
    cluster.nodes.put_node(a_node("huge", cpu="500"))
    cluster.driver.objects["Node", "huge"] = a_node("huge", cpu="500")
    checks = Checks(cluster, repairs=True)
    lines = checks.run()
    assert (
        '"Self-check found a stranded pod" kind="stranded" subject="Pod default/big" what="waits since attempt 1" '
        'believed="rejected by NodeResourcesFit" fresh="fits huge"'
    ) in lines
    assert (
        '"Self-check mended a difference" kind="stranded" subject="Pod default/big" what="waits since attempt 1"'
        in lines
    )
    assert checks.metric("stranded_pods") == "2"
    assert checks.metric("repairs_total", '{kind="stranded",result="mended"}') == "2"
    assert cluster.scheduler.place_in_queue("default/big") == "active"
    assert checks.woken == 1
    checks.run()
    assert checks.metric("stranded_pods") == "0"


def test_a_flood_of_differences_is_counted_and_not_logged() -> None:
    cluster = a_busy_cluster()
    for number in range(MAX_LOGGED + 5):
        cluster.core.queue.add(a(f"ghost-{number}", cpu="100"))
    checks = Checks(cluster)
    lines = [line for line in checks.run() if 'kind="queue"' in line]
    assert len(lines) == MAX_LOGGED
    assert checks.metric("differences_total", '{kind="queue"}') == str(MAX_LOGGED + 5)


def test_a_check_that_fails_is_logged_and_the_next_one_works() -> None:
    checks = Checks(a_busy_cluster())
    checks.fails = True
    assert checks.run()[0] == '"Self-check failed" err="no plugins today"'
    assert checks.metric("runs_total", '{result="failed"}') == "1"
    checks.fails = False
    assert checks.run()[-1].startswith('"Self-check finished: no differences"')


def test_what_cannot_be_mended_is_logged_and_the_rest_is_mended() -> None:
    cluster = a_busy_cluster()
    cluster.nodes.amounts.requested[0, cluster.nodes.row_book["n2"]] += 500
    cluster.core.queue.places.remove("default/big")

    def fail(row: int) -> None:
        raise ValueError("no row today")

    vars(cluster.nodes.amounts)["count_anew"] = fail
    checks = Checks(cluster, repairs=True)
    lines = checks.run()
    said = (
        '"Self-check could not mend a difference" err="no row today" kind="row" subject="Node n2" what="requested cpu"'
    )
    assert said in lines
    assert checks.metric("repairs_total", '{kind="row",result="failed"}') == "3"
    assert checks.metric("repairs_total", '{kind="queue",result="mended"}') == "1"


def test_checks_rest_after_every_slice() -> None:
    checks = Checks(a_busy_cluster())
    checks.run()
    assert sum(checks.slept_s) >= checks.checks.longest_slice_s * (1 / SHARE - 1)


def test_a_check_follows_what_the_listener_gets() -> None:
    """Between two slices pods and nodes come, change and go: the check sees them as the scheduler does."""
    live = LiveScheduler(build_scheduler(default(), SteadyClock()), ConnectionSettings("http://x"))
    seen: list[object] = []

    def handle(change: object) -> None:
        seen.append(change)
        if isinstance(change, ObjectRemoved):
            raise ValueError("a bug")

    followed: list[object] = []
    live.scheduler.handle = handle  # type: ignore[method-assign]
    live.checks = cast(SelfChecks, SimpleNamespace(follow=followed.append))
    node = a_node("n")
    live.take_change(None, node)
    live.take_change(node, node)
    try:
        live.take_change(node, None)
    except ValueError:
        seen.append("raised")
    assert seen == [ObjectAdded(node), ObjectUpdated(node, node), ObjectRemoved(node), "raised"]
    assert followed == seen[:3]


def test_checks_go_on_at_their_interval() -> None:
    checks = Checks(a_busy_cluster())

    async def run() -> None:
        running = asyncio.create_task(checks.checks.run())
        while checks.metric("runs_total", '{result="clean"}') != "3":
            await asyncio.sleep(0)
        running.cancel()

    asyncio.run(run())
    assert checks.slept_s.count(600) >= 3


def test_the_log_is_structured() -> None:
    """JSON has the same keys."""
    cluster, stream = a_busy_cluster(), io.StringIO()
    cluster.core.queue.places.remove("default/big")
    logs = start_logs(logging.Logger("test_self_checks_json"), "json", stream=stream)
    checked = CheckedScheduler(cluster.scheduler, cluster.a_scheduler, lambda: [cluster.driver.objects])

    async def sleep(for_s: float) -> None:
        cluster.clock.advance_ns(round(for_s * NS_PER_S))

    checks = SelfChecks(checked, SelfCheckSettings(600), Log(logs.log.logger), timing=Timing(lambda: 0.0, sleep))
    asyncio.run(checks.check())
    first = msgspec.json.decode(stream.getvalue().splitlines()[0])
    keys = {key: first[key] for key in ("msg", "kind", "subject", "what", "believed", "fresh")}
    assert keys == {
        "msg": "Self-check found a difference",
        "kind": "queue",
        "subject": "Pod default/big",
        "what": "places",
        "believed": "none",
        "fresh": "one",
    }
