"""Groups that preempt, in recordings and self-checks: a run replays equal, and a check finds no fault while evictions run."""

from pathlib import Path

import msgspec
import pytest

from build import a_node
from gangs import GROUP_GATES, a_group, a_member
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config as configuration
from mooring.framework.contract.intents import Evict, Intent
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.inputs import EvictionAnswered
from mooring.scheduler.ties import by_seed
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import ReplayTally
from mooring.state.replay.replayer import Replayer, settings_of
from mooring.state.scheduler_assembly import build_scheduler
from mooring.state.scheduler_state import is_quiet
from recorded_days import only_run
from self_checking import CheckedCluster, a


def put_all(driver: Driver) -> None:
    """Four nodes full of low pods, two of which leave together, and two gangs."""
    driver.create(a_group("low", uid="uid-low", disruptionMode={"all": {}}))
    for number in range(4):
        driver.create(a_node(f"n{number}", cpu="2"))
        driver.create(a(f"low-{number}", cpu="1", nodeName=f"n{number}"))
        driver.create(a_member(f"low-member-{number}", "low", cpu="1", nodeName=f"n{number}"))
    for name, ports in (("first", ()), ("second", (80,))):  # sums decide about the one, trials about the other
        driver.create(a_group(name, 2, uid=f"uid-{name}", priority=100))
        for number in range(2):
            driver.create(a_member(f"{name}-{number}", name, cpu="1", priority=100, host_ports=ports))


def test_a_run_with_groups_that_preempt_replays_equal(tmp_path: Path) -> None:
    config, clock = configuration.default(feature_gates=GROUP_GATES), VirtualClock(START_NS)
    limits = RecordingLimits(interval_s=2, drops=False)  # each segment begins with a state
    run = RunRecorder(tmp_path, scheduler_header(config, GROUP_GATES, START_NS), limits)
    scheduler = build_scheduler(config, clock, None, DecideOptions(by_seed), gates=GROUP_GATES, recorder=run)
    driver = Driver(clock, scheduler, with_versions=True)
    put_all(driver)
    for _ in range(20):
        driver.settle()
        driver.advance_second()
    run.close()
    assert sum(bool(pod.spec.node_name) for pod in driver.pods() if pod.priority == 100) == 4
    recorded = only_run(tmp_path)
    assert len(recorded.segments) > 2
    for segment in recorded.segments:
        replayer, tally = Replayer(recorded), ReplayTally()
        for step in replayer.steps(segment.header.started_ns):
            tally.add(step)
        assert replayer.fault_count == 0
        assert replayer.problems == []
        assert tally.differing_steps == 0
    whole, tally = Replayer(recorded), ReplayTally()
    for step in whole.steps():
        tally.add(step)
    assert tally.evictions > 0


def test_a_self_check_finds_no_fault_while_the_evictions_for_a_group_run() -> None:
    cluster = CheckedCluster(**GROUP_GATES)
    put_all(cluster.driver)
    found: list[Intent] = []
    cluster.scheduler.attempt()
    cluster.scheduler.carry_out(found.append)
    evictions = [intent for intent in found if isinstance(intent, Evict)]
    assert evictions
    assert not is_quiet(cluster.scheduler)
    assert cluster.scheduler.check() == []
    assert cluster.check() == []
    for eviction in evictions:
        cluster.driver.delete("Pod", eviction.victim.key)
        cluster.scheduler.handle(EvictionAnswered(eviction.victim, eviction.preemptor))
    for _ in range(20):
        cluster.driver.settle()
        cluster.clock.advance_ns(NS_PER_S)
        cluster.driver.tick()
    assert cluster.check() == []
    assert cluster.reports == []


def test_a_recording_with_groups_of_v1_36_is_refused_with_what_to_do() -> None:
    header = scheduler_header(configuration.default(feature_gates=GROUP_GATES), GROUP_GATES, START_NS)
    older = msgspec.json.decode(msgspec.json.encode(header.settings))
    older["featureGates"]["GangScheduling"] = True
    with pytest.raises(RecordingError) as raised:
        settings_of(msgspec.structs.replace(header, settings=older))
    assert str(raised.value) == (
        "the recording has pod groups of Kubernetes v1.36 (scheduling.k8s.io/v1alpha2, feature gate GangScheduling=true), "
        "which v1.37 replaced; replay it with the version of Mooring that recorded it"
    )
