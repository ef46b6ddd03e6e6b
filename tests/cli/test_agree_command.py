"""`mooring agree`: what it prints, and its exit status."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml
from command import enabling, mooring, write_config

from build import a_node, a_pod
from mooring.framework import config as configuration
from mooring.model.pod import Pod
from mooring.state.recording.run_files import segments_in
from mooring.state.recording.segment_file import SegmentReader, SegmentWriter
from recorded_clusters import an_observer, schedule_all

DEFAULT = "default-scheduler"


def a_waiting_pod(name: str, cpu: str = "2") -> Pod:
    return a_pod(name, cpu=cpu, metadata={"uid": name}, schedulerName=DEFAULT)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A recording of a scheduler that decides as Mooring does."""
    there = [a_node(f"n-{i}", cpu=str(6 + i)) for i in range(3)]
    schedule_all(tmp_path / "good", [*there, *(a_waiting_pod(f"p-{i}") for i in range(4))])
    return tmp_path / "good"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A recording of two bindings: the first could be better, the second is not allowed."""
    there = [a_node("large", cpu="8"), a_node("middle", cpu="4"), a_node("small", cpu="1")]
    observer = an_observer(tmp_path / "bad", there)
    for name, node in (("first", "middle"), ("second", "small")):
        pod = a_waiting_pod(name)
        observer.added(pod)
        observer.updated(pod, pod.with_node(node))
    observer.close()
    return tmp_path / "bad"


def test_all_bindings_agree(good: Path) -> None:
    ran = mooring("agree", good)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("4 bindings: same node for ")
    assert "a lower score for 0 (0.0%)" in ran.out.splitlines()[0]


def test_a_tied_node_that_is_not_the_one_of_the_rule_is_a_difference(tmp_path: Path) -> None:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    observer = an_observer(tmp_path / "tie", (), configuration.from_object({**header, "parallelism": 1}))
    for name in ("n-2", "n-1"):
        observer.added(a_node(name))
    observer.added(pod := a_waiting_pod("p"))
    observer.updated(pod, pod.with_node("n-1"))
    observer.close()
    assert mooring("agree", tmp_path / "tie").code == 0
    ran = mooring("agree", tmp_path / "tie", "--tie-break", "kube-scheduler")
    assert ran.code == 1
    assert ran.out.startswith("default/p was bound to n-1 at ")
    assert ran.out.splitlines()[0].endswith("; kube-scheduler's rule for ties says n-2")


def test_differences_are_shown_the_worst_first_and_the_status_is_one(bad: Path) -> None:
    ran = mooring("agree", bad)
    assert (ran.code, ran.err) == (1, "")
    summary, _, tables = ran.out.partition("\n\n")
    assert len(summary.splitlines()) == 2
    assert tables == TABLES


TABLES = """\
By profile
PROFILE             BINDINGS   LOWER   REJECTED
default-scheduler   2          1       1

What makes the difference
PLUGIN             BINDINGS   LARGEST   MEAN
NodeResourcesFit   1          13        13.0

Rejected by a filter
POD              NODE    PLUGIN             REASON             BEST    AT
default/second   small   NodeResourcesFit   Insufficient cpu   large   2026-02-01T00:00:00Z

Lower scores
POD             NODE     SCORE   BEST    ITS SCORE   BEHIND   PLUGIN             BY   BETTER NODES   MAY BE SAMPLED
default/first   middle   435     large   454         19       NodeResourcesFit   13   1              no
"""


def test_one_binding_has_the_scores_of_both_nodes(bad: Path) -> None:
    ran = mooring("agree", bad, "--pod", "first")
    assert ran.code == 1
    assert ran.out.startswith("default/first was bound to middle at 2026-02-01T00:00:00Z, with a score of ")
    assert "PLUGIN                            BOUND NODE   BEST NODE" in ran.out


def test_all_bindings_are_shown_on_request(bad: Path) -> None:
    assert "Bindings\nAT " in mooring("agree", bad, "-o", "wide").out
    assert "Bindings\nAT " not in mooring("agree", bad).out


def test_programs_read_json_and_yaml(bad: Path) -> None:
    data = json.loads(mooring("agree", bad, "-o", "json").out)
    assert data["verdicts"] == {"same": 0, "tied": 0, "lower": 1, "rejected": 1, "undecided": 0}
    assert [each["pod"] for each in data["different"]] == ["default/second", "default/first"]
    assert yaml.safe_load(mooring("agree", bad, "-o", "yaml").out) == data


def test_another_configuration_may_be_asked(bad: Path, tmp_path: Path) -> None:
    """Without scores the first binding is as good as any."""
    fit = [{"name": "NodeResourcesFit"}]
    plugins = {
        "multiPoint": {"disabled": [*fit, {"name": "NodeResourcesBalancedAllocation"}]},
        "preFilter": {"enabled": fit},
        "filter": {"enabled": fit},
    }
    config = write_config(tmp_path / "c.yaml", profiles=[{"plugins": plugins}])
    ran = mooring("agree", bad, "--config", config, "--pod", "first")
    assert (ran.code, ran.err) == (0, "")


def test_a_scheduler_name_that_no_profile_has_leaves_nothing_to_judge(bad: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.yaml", profiles=[{"schedulerName": "other"}])
    ran = mooring("agree", bad, "--config", config)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "The recording has no binding of a scheduler that the configuration names",
        "2 bindings of default-scheduler: not judged, because no profile has this scheduler name",
    ]


# ---- bad input


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path / "nowhere", f"{tmp_path}/nowhere: there is no such directory"),
        (tmp_path, f"{tmp_path}: there is no recording in this directory"),
    ):
        ran = mooring("agree", path)
        assert (ran.code, ran.out, ran.complaints) == (2, "", [complaint])


def test_a_pod_without_a_binding_is_refused_with_similar_names(bad: Path) -> None:
    ran = mooring("agree", bad, "--pod", "frist")
    assert (ran.code, ran.complaints) == (
        2,
        ["the recording has no binding of a pod frist; did you mean default/first?"],
    )


def test_a_recording_of_another_format_is_named_and_nothing_is_left(bad: Path) -> None:
    (path,) = segments_in(bad)
    path.write_bytes(path.read_bytes().replace(b"mooring-recording 3", b"mooring-recording 7", 1))
    ran = mooring("agree", bad)
    assert ran.code == 2
    assert ran.complaints == [f"{path}: the recording has format 7; this version reads 1 to 3: upgrade Mooring"]


def test_a_damaged_recording_is_read_up_to_the_damage(bad: Path) -> None:
    (path,) = segments_in(bad)
    path.write_bytes(path.read_bytes()[:-30])
    ran = mooring("agree", bad)
    assert ran.code in (0, 1) and "Traceback" not in ran.err


def test_a_plugin_that_is_missing_is_named(good: Path) -> None:
    (path,) = segments_in(good)
    written = path.read_bytes()
    path.write_bytes(written.replace(b'"name":"ImageLocality"', b'"name":"ImageTimidity"', 1))
    ran = mooring("agree", good)
    assert ran.code == 2 and "ImageTimidity" in ran.err


def test_a_plugin_that_the_recording_needs_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "likes.py"
    plugin.write_text(LIKES)
    config = configuration.from_object(
        yaml.safe_load(write_config(tmp_path / "c.yaml", **enabling("Likes")).read_text())
    )
    observer = an_observer(tmp_path / "recording", [a_node("a", cpu="4"), a_node("b", cpu="4")], config)
    pod = a_waiting_pod("web")
    observer.added(pod)
    observer.updated(pod, pod.with_node("b"))
    observer.close()
    ran = mooring("agree", tmp_path / "recording")
    assert ran.code == 2
    (complaint,) = ran.complaints
    assert complaint.endswith(": its plugin Likes is not installed; name its file with --plugin FILE")
    ran = mooring("agree", tmp_path / "recording", "--plugin", plugin)
    assert (ran.code, ran.err) == (0, "")
    assert mooring("agree", tmp_path / "recording", "--config", write_config(tmp_path / "plain.yaml")).code == 0


LIKES = """
from mooring.framework.contract.plain import PlainPlugin

class Likes(PlainPlugin):
    name = "Likes"

    def score(self, pod, node):
        return 100 if node.name == "b" else 0
"""


@pytest.mark.parametrize(
    ("server", "is_told"),
    [("v1.37.0-rc.1", False), ("v1.37.4+k3s1", False), ("v1.36.4", True), ("v1.370.0", True), ("", False)],
)
def test_a_cluster_of_another_release_is_said(good: Path, server: str, is_told: bool) -> None:
    for path in segments_in(good):
        reader = SegmentReader(path)
        header, blocks = reader.header, [*reader.blocks()]
        path.unlink()
        writer = SegmentWriter(path, msgspec.structs.replace(header, source="observer", server=server))
        for block in blocks:
            writer.write(block)
        writer.close()
    ran = mooring("agree", good)
    assert ran.code == 0
    assert (f"the API server was {server}; if kube-scheduler was of that release too" in ran.err) is is_told
