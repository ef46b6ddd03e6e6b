"""`mooring replay` on the command line: what it prints, its exit status, and what it refuses."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from command import Ran, mooring, write_config

from build import a_node, a_pod
from kubectl import needs_kubectl
from mooring.cli.options import enable_loaded, registry_with
from mooring.framework import config as configuration
from mooring.inputs.arrivals import Arrival, arrivals_of
from mooring.state.recording.run_files import RecordingLimits, segments_in
from recorded_days import record_day

SCHEMAS = Path(__file__).parent.parent.parent / "docs" / "schemas"
LIKES = """
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.model.pod import Pod

class Likes(PlainPlugin):
    name = "Likes"
    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 if node.name == "{node}" else 0

PLUGINS = (Likes,)
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute on three nodes: ten pods, one that fits nowhere, and one that preempts."""
    directory = tmp_path_factory.mktemp("recorded")
    nodes = [a_node(f"n{i}", cpu="2") for i in range(3)]
    entries = [
        {"at": "0s", "every": "5s", "until": "50s", "name": "p", "cpu": "500m", "run": "4m"},
        {"at": "12s", "name": "giant", "cpu": 64},
        {"at": "30s", "name": "urgent", "cpu": 2, "priority": 100},
    ]
    limits = RecordingLimits(interval_s=20, drops=False)
    record_day(directory, nodes, arrivals_of(entries, nodes), limits=limits, seed=None, until_s=60)
    return directory


@pytest.fixture(scope="module")
def with_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a scheduler with a plugin that likes n1; `other.py` likes n2."""
    directory = tmp_path_factory.mktemp("plugin")
    for name, node in (("likes.py", "n1"), ("other.py", "n2")):
        (directory / name).write_text(LIKES.format(node=node))
    registry, config = registry_with((str(directory / "likes.py"),)), configuration.default()
    enable_loaded(config, registry)
    nodes = [a_node(f"n{i}", cpu="4") for i in range(3)]
    pods = [Arrival(i * 10**9, a_pod(f"p{i}", cpu="1", schedulerName="default-scheduler"), None) for i in range(3)]
    record_day(directory / "recording", nodes, pods, config, registry, seed=None)
    return directory


def lines(ran: Ran) -> list[str]:
    return ran.out.splitlines()


def test_a_recording_that_comes_out_equal(recording: Path) -> None:
    ran = mooring("replay", recording)
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(
        r"1 run, \d+ steps, \d+ decisions \(11 binds, \d+ failures, \d evictions\): all came out equal", lines(ran)[0]
    )
    assert re.fullmatch(
        r"Recorded from 2026-02-01T00:00:00Z to 2026-02-01T00:01:00Z \(1m00s\), replayed in \S+: [\d,]+ times real time",
        lines(ran)[1],
    )


def test_one_run_can_be_named(recording: Path) -> None:
    (run,) = recording.iterdir()
    assert lines(mooring("replay", run))[0] == lines(mooring("replay", recording))[0]


@pytest.mark.parametrize("arguments", [(), ("--pod", "p-0"), ("--pod", "default/giant-0")])
def test_json_and_yaml_have_the_same_form(recording: Path, arguments: tuple[str, ...]) -> None:
    schema = json.loads((SCHEMAS / "replay.v1.json").read_text())
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        ran = mooring("replay", recording, *arguments, "-o", form)
        assert ran.code == 0
        jsonschema.validate(read(ran.out), schema)


def test_a_part_is_replayed(recording: Path) -> None:
    ran = mooring("replay", recording, "--since", "2026-02-01T00:00:45Z", "--until", "55s", "-o", "json")
    answer = json.loads(ran.out)
    assert (answer["equal"], answer["binds"]) == (True, 1)
    assert answer["runs"][0]["from"] >= "2026-02-01T00:00:45Z"


# ---- pods


def test_the_story_of_a_pod(recording: Path) -> None:
    ran = mooring("replay", recording, "--pod", "urgent-0")
    assert ran.code == 0
    assert lines(ran)[0].startswith("default/urgent-0 arrived at 2026-02-01T00:00:30Z; went to n")
    assert "Story" in lines(ran)
    assert any("preempts default/p-" in line for line in lines(ran))


def test_an_unknown_pod_is_refused(recording: Path) -> None:
    ran = mooring("replay", recording, "--pod", "default/p-77")
    assert ran.code == 2
    assert ran.complaints == [
        "no pod 'default/p-77' in this part of the recording; did you mean default/p-7 or default/p-9 or default/p-8?"
    ]


# ---- differences and plugins


def test_a_plugin_is_given_by_its_file(with_plugin: Path) -> None:
    ran = mooring("replay", with_plugin / "recording", "--plugin", with_plugin / "likes.py")
    assert ran.code == 0, ran.err
    assert lines(ran)[0].endswith("all came out equal")


def test_a_missing_plugin_is_named(with_plugin: Path) -> None:
    ran = mooring("replay", with_plugin / "recording")
    assert ran.code == 2
    assert "its plugin Likes is not installed; name its file with --plugin FILE." in ran.complaints[0]
    assert ran.complaints[-1].endswith("nothing was replayed")


def test_a_plugin_that_changed_its_mind(with_plugin: Path) -> None:
    ran = mooring("replay", with_plugin / "recording", "--plugin", with_plugin / "other.py")
    assert ran.code == 1
    assert lines(ran)[0].endswith("0 came out equal, 3 did not")
    assert "  then: default/p0 is bound to n1" in lines(ran)
    assert "  now:  default/p0 is bound to n2" in lines(ran)
    assert "n2 is 100 ahead of n1 (554 to 454): Likes +100" in lines(ran)
    assert "another node                   3" in lines(ran)
    wide = mooring("replay", with_plugin / "recording", "--plugin", with_plugin / "other.py", "-o", "wide")
    assert "The first differences" in wide.out


def test_a_plugin_that_raises_is_a_line_not_a_traceback(with_plugin: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(LIKES.format(node="n1").replace('return 100 if node.name == "n1" else 0', "raise ValueError(1)"))
    ran = mooring("replay", with_plugin / "recording", "--plugin", plugin)
    assert ran.code == 1
    assert "no node instead of one" in ran.out


# ---- what would have happened


def test_another_configuration(recording: Path, tmp_path: Path) -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}
    config = write_config(tmp_path / "packed.yaml", profiles=[profile])
    ran = mooring("replay", recording, "--config", config, "-o", "json")
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    jsonschema.validate(answer, json.loads((SCHEMAS / "compare.v1.json").read_text()))
    assert [run["name"] for run in answer["runs"]] == ["recorded", "packed"]
    assert answer["placementsDiffer"]
    assert answer["runs"][1]["figures"]["nodesUsed"] <= answer["runs"][0]["figures"]["nodesUsed"]


def test_a_new_plugin(recording: Path, with_plugin: Path) -> None:
    ran = mooring("replay", recording, "--open-loop", "--plugin", with_plugin / "likes.py")
    assert ran.code == 0
    assert "plugin Likes is enabled in all profiles" in ran.err
    assert "recorded" in ran.out and "other plugins" in ran.out


def test_a_plugin_that_the_recording_does_not_enable_stays_off_and_a_note_says_how_to_try_it(
    recording: Path, with_plugin: Path
) -> None:
    told = (
        "note: plugin Likes is loaded, but the recorded configuration does not enable it; "
        "--open-loop shows what would have happened with it\n"
    )
    ran = mooring("replay", recording, "--plugin", with_plugin / "likes.py")
    assert (ran.code, ran.err) == (0, told)
    assert "all came out equal" in lines(ran)[0]
    story = mooring("replay", recording, "--plugin", with_plugin / "likes.py", "--pod", "p-0")
    assert (story.code, story.err) == (0, told)
    assert lines(story) == lines(mooring("replay", recording, "--pod", "p-0"))


def test_a_file_with_the_recorded_plugin_and_another_one_replays_with_the_recorded_one(
    with_plugin: Path, tmp_path: Path
) -> None:
    both = tmp_path / "both.py"
    likes = (with_plugin / "likes.py").read_text()
    both.write_text(likes + likes.replace("Likes", "Hates"))
    ran = mooring("replay", with_plugin / "recording", "--plugin", both)
    assert ran.code == 0
    assert "all came out equal" in lines(ran)[0]
    story = mooring("replay", with_plugin / "recording", "--plugin", both, "--pod", "p0")
    assert story.code == 0
    assert "Likes" in story.out and "Hates" not in story.out


def test_a_comparison_without_the_recorded_plugin_names_it(with_plugin: Path) -> None:
    ran = mooring("replay", with_plugin / "recording", "--open-loop")
    assert ran.code == 2
    assert "its plugin Likes is not installed; name its file with --plugin FILE" in ran.complaints[0]


def test_the_recorded_configuration_once_more(recording: Path) -> None:
    ran = mooring("replay", recording, "--open-loop")
    assert ran.code == 0
    assert "every pod has the same node in all of them" in lines(ran)[0]


def test_a_configuration_that_cannot_be_used(recording: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "bad.yaml", profiles=[{"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}])
    ran = mooring("replay", recording, "--config", config)
    assert ran.code == 2
    assert "Nope" in ran.complaints[0]


# ---- step by step


def walk(recording: Path, *commands: str, arguments: tuple[str, ...] = ()) -> list[str]:
    ran = mooring("replay", recording, "--step", *arguments, stdin="\n".join(commands).encode() + b"\n")
    assert ran.code == 0, ran.err
    return lines(ran)


def test_next_shows_one_step_after_the_other(recording: Path) -> None:
    shown = walk(recording, "next", "", "n 2", "quit", "next")
    assert [line.split("  ", 2)[-1].split("  ")[-1] for line in shown] == [
        "Node n0 is added",
        "Node n1 is added",
        "Node n2 is added",
        "Namespace default is added",
    ]


def test_decisions_and_times_are_found(recording: Path) -> None:
    shown = walk(recording, "decision", "d", "d default/urgent-0", "to 50s", "to 2026-02-01T00:00:59Z")
    assert shown[1].strip() == "default/p-0 is bound to n0"
    assert shown[3].strip().startswith("default/p-1 is bound to ")
    assert "default/urgent-0 gets no node" in " ".join(shown[4:12])
    assert "2026-02-01T00:00:50" in shown[-2] and "2026-02-01T00:01:00" in shown[-1]


def test_questions_are_answered_between_steps(recording: Path) -> None:
    shown = walk(
        recording,
        "queue",
        "to 14s",
        "queue",
        "node n0",
        "node n00",
        "explain giant-0",
        "explain p-0",
        "where",
        "help",
        "hm",
    )
    text = "\n".join(shown)
    assert shown[0] == "nothing has happened yet: `next` makes the first step"
    assert "default/giant-0   unschedulable   1 " in text
    assert "cpu                 500m        2" in text
    assert "there is no node n00; did you mean n0" in text
    assert "default/giant-0 is pending: 0/3 nodes are available: 3 Insufficient cpu." in text
    assert "default/p-0 is on n0, and would go there again: the best of 3 nodes that take it, of 3" in text
    assert "3 nodes, 4 pods; waiting: 0 active, 0 backoff, 1 unschedulable, 0 gated; 0 steps came out otherwise" in text
    assert "An empty line repeats the last one." in text
    assert shown[-1] == "hm: there is no such command; `help` lists them"


def test_questions_change_nothing(recording: Path) -> None:
    asked = [command for i in range(0, 60, 3) for command in (f"to {i}s", "explain p-0", "explain giant-0", "node n1")]
    shown = walk(recording, *asked, "difference", arguments=("--until", "58s"))
    assert re.fullmatch(r"the recording ends here, after \d+ steps, 0 of which came out otherwise", shown[-1])


def test_a_walk_begins_at_since(recording: Path) -> None:
    assert "2026-02-01T00:00:3" in walk(recording, "quit", arguments=("--since", "30s"))[0]


def test_a_walk_over_differences(with_plugin: Path) -> None:
    ran = mooring(
        *("replay", with_plugin / "recording", "--plugin", with_plugin / "other.py", "--step"), stdin=b"difference\n"
    )
    assert ran.code == 1
    assert lines(ran)[1:] == ["         default/p0 is bound to n1", "         now: default/p0 is bound to n2"]


# ---- a cluster for kubectl


@pytest.mark.slow
@needs_kubectl
def test_the_cluster_of_a_moment_is_served(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "pods.json"
    ran = mooring("replay", recording, "--until", "14s", "--serve", "--exec", f"kubectl get pods -A -o json > {out}")
    assert (ran.code, ran.complaints) == (0, ["The cluster as it was at 2026-02-01T00:00:12Z"])
    pods = {item["metadata"]["name"]: item["spec"].get("nodeName") for item in json.loads(out.read_text())["items"]}
    story = mooring("replay", recording, "--pod", "p-1", "-o", "json")
    assert pods == {"p-0": "n0", "p-1": json.loads(story.out)["node"], "p-2": pods["p-2"], "giant-0": None}
    assert pods["p-2"] is not None


@pytest.mark.slow
@needs_kubectl
def test_the_recorded_scheduler_can_go_on(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "pods"
    command = (
        f"kubectl create -f {tmp_path}/more.json && "
        f"kubectl wait --for=condition=PodScheduled pod/more --timeout=60s && kubectl get pod more -o json > {out}"
    )
    more = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "more"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    (tmp_path / "more.json").write_text(json.dumps(more))
    ran = mooring("replay", recording, "--until", "14s", "--serve", "--schedule", "--exec", command)
    assert ran.code == 0, ran.err
    assert json.loads(out.read_text())["spec"]["nodeName"] in ("n0", "n1", "n2")


@pytest.mark.slow
@needs_kubectl
def test_a_cluster_that_was_recorded_while_kubectl_used_it(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    command = f"kubectl create -f {tmp_path}/pod.json && kubectl wait --for=condition=Ready pod/web --timeout=60s"
    ran = mooring("up", "-q", "--nodes", "3", "--record", tmp_path / "recording", "--exec", command)
    assert ran.code == 0, ran.err
    answer = json.loads(mooring("replay", tmp_path / "recording", "-o", "json").out)
    assert (answer["equal"], answer["binds"], answer["problems"]) == (True, 1, [])
    story = json.loads(mooring("replay", tmp_path / "recording", "--pod", "web", "-o", "json").out)
    assert story["node"] == story["explanation"]["node"] != ""
    assert story["explanation"]["feasibleNodes"] == 3


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--until", "never"), "--until never: neither a time such as 2026-02-01T00:00:00Z nor a duration"),
        (("--since", "20m"), "nothing was replayed; there are no steps in this time"),
        (("--pod", "x", "--step"), "--step cannot be used with --pod; choose one of the two"),
        (("--serve", "--open-loop"), "--config or --open-loop cannot be used with --serve; choose one of the two"),
        (("--schedule",), "--schedule, --port, --dashboard-port and --exec are options of --serve"),
        (("--plugin", "/nowhere.py"), "/nowhere.py"),
    ],
)
def test_options_that_make_no_sense_are_refused(recording: Path, arguments: tuple[str, ...], complaint: str) -> None:
    ran = mooring("replay", recording, *arguments)
    assert ran.code == 2
    assert complaint in ran.complaints[-1]
    assert ran.out == ""


def test_a_directory_without_recordings_is_refused(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path, "there is no recording in this directory"),
        (tmp_path / "x", "no such directory"),
    ):
        ran = mooring("replay", path)
        assert (ran.code, len(ran.complaints)) == (2, 1)
        assert complaint in ran.complaints[0]


def test_problems_are_warnings_and_the_rest_is_replayed(recording: Path, tmp_path: Path) -> None:
    for path in segments_in(recording):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    segments_in(tmp_path)[1].unlink()
    ran = mooring("replay", tmp_path)
    assert ran.code == 0
    (warning,) = ran.complaints
    assert warning.startswith("warning: ") and "are missing; the replay goes on at 2026-02-01T00:00:4" in warning
    for path in segments_in(tmp_path):
        path.write_bytes(b"")
    ran = mooring("replay", tmp_path)
    assert ran.code == 2
    assert all("\n" not in line for line in ran.complaints) and len(ran.complaints) == 5


def test_a_recording_of_other_rules_says_so_before_it_is_replayed() -> None:
    """Release 0.2 recorded it with the rules of v1.36. Decisions may come out otherwise, and the status says whether."""
    data = Path(__file__).parent.parent / "state" / "data" / "rules-1.36"
    ran = mooring("replay", data)
    assert ran.code in (0, 1)
    assert ran.err.startswith("note: the recording 20") and " was made with the rules of Kubernetes 1.36, " in ran.err
    assert "replayed" in ran.out or "steps" in ran.out
