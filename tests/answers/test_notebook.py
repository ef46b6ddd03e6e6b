"""`mooring.simulate`: what can be passed to it, and what it raises."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mooring
from build import a_node, a_pod
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.inputs.input_errors import NoSuchPod
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.simulation import Report

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PACKED = {
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
}
PACKING = {**HEADER, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": PACKED}]}]}


def written(item: KubeObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


NODES = [written(a_node("large", cpu="8")), written(a_node("small", cpu="2"))]
WEB = written(a_pod("web", cpu="1", image="web"))
ALL = {"apiVersion": "v1", "kind": "List", "items": [*NODES, WEB]}


def nodes_of(report: Report) -> dict[str, str]:
    return {result.pod.name: result.node for result in report.placed}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.json").write_text(json.dumps({**ALL, "items": NODES}))
    (tmp_path / "web.yaml").write_text(json.dumps(WEB))
    return tmp_path


def test_objects_are_files_folders_dictionaries_or_a_mixture(folder: Path) -> None:
    files = [folder / "nodes.json", str(folder / "web.yaml")]
    for objects in (folder, str(folder), files, ALL, [*NODES, WEB], [folder / "nodes.json", WEB], iter([ALL])):
        assert nodes_of(mooring.simulate(objects)) == {"web": "large"}  # type: ignore[arg-type]


def test_a_configuration_is_a_file_or_a_dictionary(tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(json.dumps(PACKING))
    for config in (PACKING, tmp_path / "packed.yaml", str(tmp_path / "packed.yaml")):
        assert nodes_of(mooring.simulate(ALL, config)) == {"web": "small"}


class OnlySmall(PlainPlugin):
    name = "OnlySmall"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return None if node.allocatable("cpu") <= 2000 else "node(s) were too large"


def test_plugins_are_classes() -> None:
    enabled = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "OnlySmall"}]}}}]}
    report = mooring.simulate(ALL, {**HEADER, **enabled}, plugins=[OnlySmall])
    assert nodes_of(report) == {"web": "small"}


def test_a_pod_is_explained() -> None:
    report = mooring.simulate(ALL, explain="web")
    assert report.explanation is not None
    assert report.explanation.pod.key == "default/web"


def test_kinds_that_decide_nothing_are_noted() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert mooring.simulate([ALL, secret]).notes == [
        "ignored, because decisions do not read these kinds: 1 Secret",
    ]


def test_every_problem_of_the_objects_is_raised_at_once() -> None:
    with pytest.raises(mooring.InputError) as caught:
        mooring.simulate([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": 7}, {"kind": "Pod"}])
    assert [str(problem) for problem in caught.value.problems] == [
        "Pod default/p: spec: Invalid value: 7: must be an object",
        "object 2: apiVersion: Required value: a version, such as v1",
    ]
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)


def test_a_file_that_is_not_there_is_a_problem() -> None:
    with pytest.raises(mooring.InputError, match=r"^/nowhere\.yaml: cannot be read: No such file or directory"):
        mooring.simulate("/nowhere.yaml")


def test_objects_that_are_none_are_refused() -> None:
    with pytest.raises(
        mooring.InputError, match=r"^objects: Invalid value: a list: must be the name of a file or folder, "
    ):
        mooring.simulate([7])  # type: ignore[list-item]


def test_what_is_wrong_with_a_configuration_is_raised() -> None:
    with pytest.raises(mooring.InputError, match="^configuration: parallelism"):
        mooring.simulate(ALL, {**HEADER, "parallelism": -1})
    with pytest.raises(mooring.InputError, match=r"^/nowhere\.yaml: cannot be read: No such file or directory$"):
        mooring.simulate(ALL, "/nowhere.yaml")


def test_a_pod_that_is_not_there_cannot_be_explained() -> None:
    with pytest.raises(NoSuchPod, match=r"^no pod 'nobody' in the input, which has 1 pod$"):
        mooring.simulate(ALL, explain="nobody")


def test_a_story_is_told() -> None:
    story = mooring.simulate(ALL, story="web").story
    assert story is not None
    assert str(story.moments[-1]) == "00:00:00.001 attempt 1 (cycle 1): is bound to large"


def test_arrivals_are_a_file_or_a_list_of_entries(tmp_path: Path) -> None:
    entries = [{"at": "1s", "run": "10s", "cpu": "1", "count": 2}]
    path = tmp_path / "day.yaml"
    path.write_text(json.dumps(entries))
    for arrivals in (path, str(path), entries):
        report = mooring.simulate(ALL, arrivals=arrivals)
        assert (report.arrived, report.finished) == (3, 2), "the pod that is pending in the input came first"
        assert report.simulated_s == pytest.approx(11.002)
    assert mooring.simulate(ALL, arrivals=entries, until=5).simulated_s == 5
    assert mooring.simulate(ALL, arrivals=entries, until="5s", story="pod-1").story is not None


def test_a_generated_day_is_a_file_or_a_dictionary(tmp_path: Path) -> None:
    plan = {"pods": 50, "over": "1h", "templates": 5, "nodes": [{"name": "g", "count": 4}]}
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps(plan))
    reports = [mooring.simulate(generate=given) for given in (plan, path, str(path))]
    assert reports[0] == reports[1] == reports[2]
    assert (reports[0].arrived, reports[0].simulated_s, reports[0].placements) == (50, 3600, {})
    assert reports[0].nodes == ["g-0", "g-1", "g-2", "g-3"]
    both = mooring.simulate(NODES, generate=plan, until="10m")
    assert (both.simulated_s, len(both.nodes)) == (600, 6), "the nodes of the cluster are there too"


def test_a_plan_that_cannot_be_used_is_raised() -> None:
    with pytest.raises(ValueError, match=r"^pods: Required value: the number of pods that arrive$"):
        mooring.simulate(NODES, generate={})


def test_a_day_notes_what_decides_nothing() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert mooring.simulate([ALL, secret], arrivals=[]).notes == [
        "ignored, because decisions do not read these kinds: 1 Secret",
    ]


def test_every_problem_of_arrivals_is_raised_at_once() -> None:
    with pytest.raises(mooring.ArrivalsError) as caught:
        mooring.simulate(ALL, arrivals=[{"at": "soon"}, {"count": 0}])
    assert [problem.path for problem in caught.value.problems] == ["arrivals[0].at", "arrivals[1].count"]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^until: Invalid value: 'soon': must be seconds, or a duration such as 90s, 15m, 24h$"
    ):
        mooring.simulate(ALL, until="soon")
    with pytest.raises(
        ValueError, match=r"^explain: cannot be used with arrivals; story shows what happened to a pod$"
    ):
        mooring.simulate(ALL, arrivals=[], explain="web")  # type: ignore[call-overload]

    with pytest.raises(
        ValueError, match=r"^explain: cannot be used with generate; story shows what happened to a pod$"
    ):
        mooring.simulate(generate={}, explain="web")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"^generate: cannot be used with arrivals; choose one of the two$"):
        mooring.simulate(ALL, arrivals=[], generate={})  # type: ignore[call-overload]


def test_the_package_has_nothing_else_to_offer() -> None:
    with pytest.raises(AttributeError, match=r"^module 'mooring' has no attribute 'schedule'$"):
        _ = mooring.schedule
