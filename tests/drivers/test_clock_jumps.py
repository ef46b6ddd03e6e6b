"""The machine's clock is set while a scheduler is at work: what it does, and when, does not change."""

from typing import Any

import pytest
from test_event_series import a_record

from build import a_pod
from gangs import GROUP_GATES, a_group, a_member
from jumping_clock import JUMPS_S
from live_stage import Stage, a_stage, on, pod, run
from mooring.api.api_errors import ApiError
from mooring.drivers.event_writer import EventSeries, NewEvent, Repetition
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import PermitPlugin, Wait
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.queue.entry import QueuedPod
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.observer import Observer

BUSY_S = 45
"""After this time only the flush of unschedulable pods is left."""
LASTS_S = 400
PERMIT_S = 10


class Doorkeeper(PermitPlugin):
    """Lets pods of its profile wait; nothing ever allows them."""

    name = "Doorkeeper"

    def permit(self, context: SchedulingContext, node_name: str) -> Wait:
        return Wait(PERMIT_S)


class Diary(Observer):
    """Notes what happens in which second since the start."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0
        self.lines: list[tuple[int, str]] = []

    def attempt_began(self, entry: QueuedPod) -> None:
        self.lines.append((self.now_s, f"try {entry.pod.name}"))

    def pod_bound(self, entry: QueuedPod) -> None:
        self.lines.append((self.now_s, f"bound {entry.pod.name}"))

    def wait_on_permit_ended(self, pod: Pod, status: str, began_ns: int) -> None:
        self.lines.append((self.now_s, f"permit {pod.name} {status}"))

    def seconds(self, line: str) -> list[int]:
        return [second for second, what in self.lines if what == line]


def a_busy_stage(diary: Diary) -> Stage:
    registry = in_tree()
    registry.register(Doorkeeper)
    profiles = [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "careful", "plugins": {"permit": {"enabled": [{"name": "Doorkeeper"}]}}},
    ]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    configured = config.from_object({**head, "profiles": profiles}, feature_gates=GROUP_GATES)
    return Stage(configured, registry=registry, gates=GROUP_GATES, observer=diary)


async def begin(stage: Stage) -> None:
    """Twenty pods whose first bind fails, one that waits for Permit, one that fits nowhere, and a gang without room."""
    pods = [pod(f"p{number}", cpu="100m") for number in range(20)]
    for each in pods:
        stage.server.faults[f"bind {each.name}"] = [ApiError(403, "Forbidden", "not now")]
    stage.shows(*pods)
    stage.shows(a_pod("waits", cpu="100m", metadata={"uid": "w"}, schedulerName="careful"))
    stage.shows(pod("large", cpu="900"))
    stage.scheduler.handle(ObjectAdded(a_group("gang", 2)))
    stage.shows(a_member("m0", cpu="3"), a_member("m1", cpu="3"))
    await stage.rest()


async def live(stage: Stage, diary: Diary, jumps_s: tuple[int, ...]) -> None:
    """One jump after the other while there is most to wait for; then quiet until the flush."""
    await begin(stage)
    jumps = dict(zip((0, 3, 5), jumps_s, strict=False))
    for second in range(LASTS_S):
        if second in jumps:
            stage.wall.jump(jumps[second])
        diary.now_s = second + 1
        await stage.later(1)
        if second == BUSY_S:
            shown = [each for each in stage.scheduler.pods.values() if stage.server.nodes.get(each.uid)]
            for each in shown:
                stage.shows_change(each, on(each, stage.server.nodes[each.uid]))


def lived(*jumps_s: int) -> Diary:
    diary = Diary()

    async def main() -> None:
        async with a_stage("n1", cpu="4", stage=a_busy_stage(diary)) as stage:
            await live(stage, diary, jumps_s)

    run(main())
    return diary


@pytest.fixture(scope="module")
def undisturbed() -> Diary:
    return lived()


def test_without_a_jump_everything_that_waits_has_its_turn(undisturbed: Diary) -> None:
    """What the tests below compare with does contain retries, the end of a Permit wait, backoffs and the flush."""
    assert all(undisturbed.seconds(f"bound p{number}") == [2] for number in range(20)), "after a backoff of a second"
    assert undisturbed.seconds("permit waits Unschedulable")[:2] == [PERMIT_S, 2 * PERMIT_S]
    assert undisturbed.seconds("try m0")[:7] == [0, 2, 5, 10, 19, 34, 49], "backoffs of the gang"
    assert 360 in undisturbed.seconds("try large"), "the flush, five minutes after the last change"


@pytest.mark.parametrize("jumps_s", [*((jump_s,) for jump_s in JUMPS_S), JUMPS_S, (-86_400, 7, 86_400)])
def test_no_wait_changes_when_the_clock_of_the_machine_is_set(undisturbed: Diary, jumps_s: tuple[int, ...]) -> None:
    assert lived(*jumps_s).lines == undisturbed.lines


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_objects_get_the_time_that_the_machine_shows(jump_s: int) -> None:
    async def main() -> None:
        async with a_stage("n1") as stage:
            stage.wall.jump(jump_s)
            stage.shows(pod("large", cpu="900"))
            await stage.rest()
            (patch,) = stage.server.bodies
            (condition,) = patch["status"]["conditions"]
            assert condition["lastTransitionTime"] == {
                -3600: "2027-01-15T07:00:00Z",
                3600: "2027-01-15T09:00:00Z",
                -30: "2027-01-15T07:59:30Z",
            }[jump_s]  # fmt: skip

    run(main())


# ---- events

START_NS = 1_800_000_000 * NS_PER_S
HOUR_NS = 3600 * NS_PER_S


def test_events_after_a_jump_back_say_the_time_of_the_machine_and_their_names_stay_unique() -> None:
    series = EventSeries("host")
    told = [
        series.tell(a_record(a_pod("p", metadata={"uid": str(number)})), START_NS + number, START_NS - ahead_ns)
        for number, ahead_ns in enumerate((0, HOUR_NS, HOUR_NS, 0))
    ]
    events: list[Any] = [each.event for each in told if isinstance(each, NewEvent)]
    assert len({event["metadata"]["name"] for event in events}) == 4
    assert [event["eventTime"][11:19] for event in events] == ["08:00:00", "07:00:00", "07:00:00", "08:00:00"]


def test_a_series_ends_after_six_minutes_of_quiet_whatever_the_machine_shows() -> None:
    series = EventSeries("host")
    series.tell(a_record(), START_NS, START_NS)
    again = series.tell(a_record(), START_NS + NS_PER_S, START_NS - HOUR_NS)
    assert isinstance(again, Repetition)
    assert again.series == {"count": 2, "lastObservedTime": "2027-01-15T07:00:00.000000Z"}
    assert series.sweep(START_NS + 300 * NS_PER_S) == []
    assert [each.series["count"] for each in series.sweep(START_NS + 362 * NS_PER_S)] == [2]
