"""Any simulated day that is recorded replays equal, from each of its states; what is missing is said."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node
from how_many import examples
from mooring.drivers.simulated_driver import START_NS
from mooring.framework import config as configuration
from mooring.framework.profile.registry import Registry
from mooring.inputs.arrivals import arrivals_of
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.release import RULES
from mooring.state.recording.run_files import RecordingLimits, segments_in
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import SegmentReader, SegmentWriter
from mooring.state.replay.differences import ReplayTally
from mooring.state.replay.replayer import Replayer
from mooring.state.scheduler_assembly import all_plugins
from recorded_days import only_run, record_day

SHORT = RecordingLimits(interval_s=20, drops=False)

ENTRIES = st.fixed_dictionaries(
    {
        "at": st.integers(0, 60),
        "count": st.integers(1, 4),
        "cpu": st.sampled_from(["250m", "1", "2"]),
        "memory": st.sampled_from(["256Mi", "1Gi"]),
        "priority": st.sampled_from([0, 0, 100]),
        "run": st.sampled_from(["1s", "15s", "90s"]),
    }
)


def nodes(count: int) -> list[KubeObject]:
    return [a_node(f"n{i}", cpu="4", labels={"topology.kubernetes.io/zone": f"z{i % 2}"}) for i in range(count)]


def replayed(
    run: RecordedRun, from_ns: int | None = None, until_ns: int | None = None
) -> tuple[ReplayTally, list[str]]:
    replayer, tally = Replayer(run), ReplayTally()
    for step in replayer.steps(from_ns, until_ns):
        tally.add(step)
    assert replayer.fault_count == 0
    return tally, replayer.problems


@given(st.lists(ENTRIES, min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 5), st.sampled_from([None, 5]))
@settings(deadline=None, max_examples=examples(25))
def test_a_day_replays_equal_from_each_of_its_states(
    entries: list[dict[str, Any]], node_count: int, seed: int, percentage: int | None
) -> None:
    config = configuration.default()
    if percentage is not None:
        config.percentage_of_nodes_to_score = percentage
    named = [{"name": f"p{i}", **entry} for i, entry in enumerate(entries)]
    there = nodes(node_count)
    with tempfile.TemporaryDirectory() as directory:
        report = record_day(
            Path(directory), there, arrivals_of(named, there), config, limits=SHORT, seed=seed or None, until_s=200
        )
        run = only_run(Path(directory))
        tally, problems = replayed(run)
        assert (problems, tally.differing_steps, tally.binds) == ([], 0, sum(report.placed_on().values()))
        for segment in run.segments:
            part, problems = replayed(run, segment.header.started_ns)
            assert (problems, part.differing_steps) == ([], 0)
            assert part.last_ns == tally.last_ns


# ---- parts


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes in which a pod comes every second, in segments of 20 seconds."""
    directory = tmp_path_factory.mktemp("day")
    there = nodes(3)
    entries = [{"at": "0s", "every": "1s", "until": "2m", "name": "p", "cpu": "500m", "run": "15s"}]
    record_day(directory, there, arrivals_of(entries, there), limits=SHORT, until_s=120)
    return directory


@pytest.fixture
def copied(day: Path, tmp_path: Path) -> Iterator[Path]:
    """The same day, to be damaged."""
    for path in segments_in(day):
        folder = tmp_path / path.parent.name
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    yield tmp_path


def test_a_replay_can_end_early_and_begin_late(day: Path) -> None:
    run = only_run(day)
    assert len(run.segments) >= 5
    until_ns = START_NS + 50 * NS_PER_S
    tally, problems = replayed(run, until_ns=until_ns)
    assert (problems, tally.differing_steps) == ([], 0)
    assert START_NS + 49 * NS_PER_S <= tally.last_ns <= until_ns
    late, _ = replayed(run, from_ns=until_ns)
    assert late.first_ns is not None
    assert until_ns - 21 * NS_PER_S <= late.first_ns <= until_ns, "the state before that moment"


def test_what_comes_after_the_end_is_not_known(day: Path) -> None:
    replayer = Replayer(only_run(day))
    for _ in replayer.steps(until_ns=START_NS + 10 * NS_PER_S + NS_PER_S // 2):
        pass
    pods = [key for kind, key in replayer.reader.objects if kind == "Pod"]
    assert sorted(pods) == sorted(f"default/p-{i}" for i in range(11))
    assert replayer.scheduler is not None
    assert set(replayer.scheduler.pods) == set(pods)


def test_a_missing_segment_is_said_and_the_rest_is_replayed(copied: Path) -> None:
    whole, _ = replayed(only_run(copied))
    segments_in(copied)[2].unlink()
    tally, (problem,) = replayed(only_run(copied))
    assert (
        "000004.rec: the segments between 000002.rec and this one are missing; the replay goes on at 2026-02-01T00:01"
        in problem
    )
    assert tally.differing_steps == 0
    assert whole.steps * 0.6 < tally.steps < whole.steps


def test_a_cut_segment_is_replayed_as_far_as_it_goes(copied: Path) -> None:
    path = segments_in(copied)[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])  # the header is half of it
    tally, (problem,) = replayed(only_run(copied))
    assert problem.startswith(f"{path}: its ")
    assert "; replayed until 2026-02-01T00:00:" in problem
    assert problem.endswith("the replay goes on at 2026-02-01T00:00:40Z")
    assert tally.differing_steps == 0


def test_a_run_that_was_killed_is_replayed_to_its_last_whole_block(copied: Path) -> None:
    path = segments_in(copied)[-1]
    path.write_bytes(path.read_bytes()[:-30])
    tally, problems = replayed(only_run(copied))
    assert tally.differing_steps == 0
    assert all("nothing follows" in problem for problem in problems)


def test_damaged_bytes_are_said(copied: Path) -> None:
    path = segments_in(copied)[1]
    data = bytearray(path.read_bytes())
    data[-100:-92] = b"damaged!"
    path.write_bytes(data)
    tally, (problem,) = replayed(only_run(copied))
    assert problem.startswith(f"{path}: ") and "the replay goes on at" in problem
    assert tally.differing_steps == 0


def test_a_segment_of_another_format_is_said(copied: Path) -> None:
    path = segments_in(copied)[0]
    _, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(b"mooring-recording 99\n" + rest)
    tally, (problem,) = replayed(only_run(copied))
    assert "the recording has format 99" in problem and "upgrade Mooring" in problem
    assert tally.differing_steps == 0 and tally.first_ns is not None
    assert tally.first_ns >= START_NS + 20 * NS_PER_S, "it begins with the first state"


def test_a_run_without_a_segment_that_can_be_read_is_said(copied: Path) -> None:
    for path in segments_in(copied):
        path.write_bytes(b"something else\n")
    tally, problems = replayed(only_run(copied))
    assert tally.steps == 0
    assert "this is not a recording of Mooring" in problems[0]
    assert problems[-1].endswith(": the run has no segment that can be read")


def rewritten(path: Path, **fields: Any) -> None:
    """The same segment with another header."""
    reader = SegmentReader(path)
    blocks = list(reader.blocks())
    path.unlink()
    writer = SegmentWriter(path, msgspec.structs.replace(reader.header, **fields))
    for block in blocks:
        writer.write(block)
    writer.close()


def test_a_plugin_that_is_missing_is_named_and_nothing_is_replayed(copied: Path) -> None:
    for path in segments_in(copied):
        rewritten(path, plugins=["Elsewhere"])
    run = only_run(copied)
    tally, (problem,) = replayed(run)
    assert tally.steps == 0
    assert problem.startswith(f"{run.name}: its plugin Elsewhere is not installed; name its file with --plugin FILE.")


def test_an_observed_cluster_is_not_replayed(copied: Path) -> None:
    for path in segments_in(copied):
        rewritten(path, source="observer")
    tally, (problem,) = replayed(only_run(copied))
    assert tally.steps == 0
    assert problem.endswith("another scheduler decided here, and Mooring only watched: use `mooring agree`")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, "the header of the recording has no configuration", id="no settings"),
        pytest.param(
            {
                "configuration": {"apiVersion": "kubescheduler.config.k8s.io/v1"},
                "featureGates": {"Nope": True},
                "rules": RULES,
            },
            "the feature gates of the recording cannot be used",
            id="a gate that is unknown",
        ),
        pytest.param(
            {"configuration": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "Nothing"}},
            "its configuration cannot be used",
            id="another kind",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_said(copied: Path, settings: dict[str, Any], expected: str) -> None:
    for path in segments_in(copied):
        rewritten(path, settings=settings)
    tally, problems = replayed(only_run(copied))
    assert tally.steps == 0
    assert expected in problems[0]


def with_first_block(path: Path, change: Callable[[bytes], bytes]) -> None:
    """The same segment with another first block."""
    reader = SegmentReader(path)
    first, *blocks = reader.blocks()
    path.unlink()
    writer = SegmentWriter(path, reader.header)
    for block in (change(first), *blocks):
        writer.write(block)
    writer.close()


def _contradiction(block: bytes) -> bytes:
    """A pod that is not there is on a node."""
    return msgspec.json.encode({**msgspec.json.decode(block), "onRows": [[99_999]]})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda block: b'{"nowNs": 1}', "its state cannot be read", id="another form"),
        pytest.param(_contradiction, "its state cannot be used", id="a contradiction"),
    ],
)
def test_a_state_that_makes_no_sense_is_left_out(copied: Path, change: Callable[[bytes], bytes], expected: str) -> None:
    first, second, *_ = segments_in(copied)
    first.unlink()
    with_first_block(second, change)
    tally, problems = replayed(only_run(copied))
    assert f"{second}: {expected}" in problems[0]
    assert problems[0].endswith("not replayed, the replay goes on at 2026-02-01T00:00:40Z")
    assert tally.differing_steps == 0 and tally.steps > 0


def test_a_replay_begins_earlier_where_a_state_cannot_be_read(copied: Path) -> None:
    third = segments_in(copied)[2]
    with_first_block(third, lambda block: b"{}")
    tally, problems = replayed(only_run(copied), START_NS + 50 * NS_PER_S)
    assert (problems, tally.differing_steps) == ([], 0)
    assert tally.first_ns is not None
    assert START_NS + 20 * NS_PER_S <= tally.first_ns < START_NS + 25 * NS_PER_S, "the state is not needed on the way"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[1,2", id="no JSON"),
        pytest.param(b"[99,0,[]]", id="a code that is unknown"),
        pytest.param(b'[10,0,[["bind","default/p"]]]', id="an outcome that is not complete"),
        pytest.param(b'[2,0,[],"Pod","default/nobody",{}]', id="an update of nobody"),
        pytest.param(b'[1,0,[],"Pod",{"metadata":7}]', id="an object of another form"),
    ],
)
def test_a_step_that_cannot_be_read_ends_its_segment(copied: Path, line: bytes) -> None:
    first = segments_in(copied)[0]
    with_first_block(first, lambda block: block + b"\n" + line)
    tally, (problem,) = replayed(only_run(copied))
    assert f"{first}: a step cannot be read" in problem
    assert problem.endswith("the replay goes on at 2026-02-01T00:00:20Z")
    assert tally.differing_steps == 0 and tally.steps > 0


def test_a_step_that_raises_is_counted_and_the_rest_is_replayed(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayer = Replayer(only_run(day))
    steps = replayer.steps()
    next(steps)
    assert replayer.scheduler is not None
    monkeypatch.setattr(replayer.scheduler, "handle", _raise)
    assert sum(1 for _ in steps) > 100
    assert replayer.fault_count > 100
    assert list(replayer.faults) == ["RuntimeError: no"]


def _raise(input: object) -> None:
    raise RuntimeError("no")


def test_runs_are_read_from_a_directory_or_one_by_one(day: Path) -> None:
    run = only_run(day)
    (alone,) = runs_in(day / run.name)
    assert replayed(alone)[0] == replayed(run)[0]


def test_the_registry_is_that_of_the_caller(day: Path) -> None:
    with_plugins: Registry = all_plugins()
    assert sum(1 for _ in Replayer(only_run(day), with_plugins).steps(until_ns=START_NS)) > 0
