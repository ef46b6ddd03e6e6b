"""Arrivals: what YAML and CSV may say, what becomes of it, and every fault with the place where it stands."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from build import a_node, a_pod
from mooring.framework.config.durations import parse_duration
from mooring.inputs import arrivals as arrivals_module
from mooring.inputs.arrivals import Arrival, ArrivalsError, arrivals_of, read_arrivals
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.workloads import PriorityClass


def shown(arrivals: list[Arrival]) -> list[tuple[float, str, float | None]]:
    """(seconds, key, seconds it runs)"""
    return [(a.at_ns / NS_PER_S, a.pod.key, None if a.run_ns is None else a.run_ns / NS_PER_S) for a in arrivals]


def problems_of(entry: Any, *objects: KubeObject) -> list[str]:
    with pytest.raises(ArrivalsError) as caught:
        arrivals_of([entry], objects)
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


# ---- YAML


def test_a_stream_of_pods(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(
        "- {at: 1m, every: 10s, until: 80s, count: 2, run: 1h, name: web, namespace: shop}"
    )
    assert shown(read_arrivals(f"{tmp_path}/day.yaml")) == [
        (60, "shop/web-0", 3600),
        (60, "shop/web-1", 3600),
        (70, "shop/web-2", 3600),
        (70, "shop/web-3", 3600),
        (80, "shop/web-4", 3600),
        (80, "shop/web-5", 3600),
    ]


def test_entries_may_stand_under_a_key_and_come_in_the_order_of_their_time(tmp_path: Path) -> None:
    entries = [{"at": 9, "name": "late"}, {"name": "first"}, {"at": "1.5s", "name": "early"}]
    (tmp_path / "day.yaml").write_text(yaml.safe_dump({"arrivals": entries}))
    assert shown(read_arrivals(f"{tmp_path}/day.yaml")) == [
        (0, "default/first-0", None),
        (1.5, "default/early-0", None),
        (9, "default/late-0", None),
    ]


def test_the_short_form_makes_a_pod_of_one_container() -> None:
    entry = {"cpu": "500m", "memory": "1Gi", "requests": {"example.com/gpu": 2}, "priority": 7, "labels": {"app": "a"}}
    (arrival,) = arrivals_of([entry])
    assert arrival.pod.shape.request == {"cpu": 500, "memory": 1 << 30, "example.com/gpu": 2}
    assert (arrival.pod.priority, arrival.pod.labels) == (7, {"app": "a"})
    assert arrival.pod.spec.scheduler_name == "default-scheduler"


def test_a_pod_may_be_written_out() -> None:
    pod = {
        "metadata": {"name": "db", "namespace": "data", "labels": {"app": "db"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}],
        },
    }
    first, second = (arrival.pod for arrival in arrivals_of([{"pod": pod, "count": 2}]))
    assert (first.key, second.key) == ("data/db-0", "data/db-1")
    assert first.spec.node_selector == {"disk": "ssd"}
    assert first.shape is second.shape and first.label_set is second.label_set, "worked out once"
    assert first.id != second.id


def test_a_spec_without_containers_is_completed_by_the_short_form() -> None:
    (arrival,) = arrivals_of([{"cpu": "2", "pod": {"spec": {"nodeSelector": {"disk": "ssd"}}}}])
    assert arrival.pod.shape.request == {"cpu": 2000}
    assert arrival.pod.spec.node_selector == {"disk": "ssd"}


def test_the_cluster_lends_its_classes() -> None:
    important = PriorityClass(metadata=ObjectMeta(name="important"), value=1000)
    (arrival,) = arrivals_of([{"pod": {"spec": {"priorityClassName": "important"}}}], [important])
    assert arrival.pod.priority == 1000
    assert problems_of({"pod": {"spec": {"priorityClassName": "important"}}}) == [
        'arrivals[0].pod.spec.priorityClassName: Invalid value: "important": must be a known class: '
        "system-cluster-critical, system-node-critical"
    ]


def test_names_that_the_cluster_has_are_left_out() -> None:
    objects = [a_node("n"), a_pod("web-0"), a_pod("web-2"), a_pod("web-1", namespace="other")]
    arrivals = arrivals_of([{"name": "web", "count": 3}], objects)
    assert [arrival.pod.key for arrival in arrivals] == ["default/web-1", "default/web-3", "default/web-4"]


# ---- CSV


def test_every_line_of_csv_is_a_pod(tmp_path: Path) -> None:
    (tmp_path / "day.CSV").write_text(
        "at, run, name, priority, cpu, example.com/gpu, count\n"
        "30s, 10m, a, 5, 500m, 1,\n"
        "\n"
        "0, , b, , , , 2\n"
    )  # fmt: skip
    arrivals = read_arrivals(f"{tmp_path}/day.CSV")
    assert shown(arrivals) == [(0, "default/b-0", None), (0, "default/b-1", None), (30, "default/a-0", 600)]
    assert arrivals[-1].pod.shape.request == {"cpu": 500, "example.com/gpu": 1}
    assert arrivals[-1].pod.priority == 5
    assert arrivals[0].pod.shape.request == {}


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_bytes(b'\xef\xbb\xbfat,name\r\n1,"web"\r\n')
    assert shown(read_arrivals(f"{tmp_path}/day.csv")) == [(1, "default/web-0", None)]


# ---- Files that cannot be used


@pytest.mark.parametrize(
    ("name", "content", "complaints"),
    [
        pytest.param(
            "a.yaml",
            b"null",
            [":1: Invalid value: null: must be a list of arrivals, or one under `arrivals:`"],
            id="null",
        ),
        pytest.param(
            "a.yaml",
            b"at: 0",
            [":1: Invalid value: an object: must be a list of arrivals, or one under `arrivals:`"],
            id="an object",
        ),
        pytest.param(
            "a.yaml",
            b"- {at: 0",
            [":2: column 1: the text does not parse (did not find expected ',' or '}', while parsing a flow mapping)"],
            id="torn YAML",
        ),
        pytest.param("a.yaml", b"- {}\n---\n- {}\n", [":1: the file has 2 documents; write one"], id="two documents"),
        pytest.param("a.csv", b"\xff,at\n", [": the text is not UTF-8: write CSV in UTF-8"], id="no UTF-8"),
        pytest.param(
            "a.csv",
            b"# at\n",
            [": the file is empty, or has only comments"],
            id="empty CSV",
        ),
        pytest.param(
            "a.csv",
            b"at,cpu\n1\n2,1,x\n3,1\n",
            [
                ":2: the row has 1 cells; write 2, as many as the header has",
                ":3: the row has 3 cells; write 2, as many as the header has",
            ],
            id="lines of another length",
        ),
        pytest.param(
            "a.csv", b"at,cpu,at\n", [':1: the header has 2 columns "at"; name each column once'], id="a column twice"
        ),
        pytest.param("a.csv", b'at\n"1\n', [":2: the text does not parse (unexpected end of data)"], id="torn"),
        pytest.param(
            "a.csv",
            b"at,cpu\nsoon,1\n0,much\n",
            [
                ':2: at: Invalid value: "soon": must be seconds, or a duration such as 90s, 15m, 1h30m; up to ten years',
                ':3: requests.cpu: Invalid value: "much": must be a quantity of zero or more, e.g. 500m, 2 or 1.5Gi',
            ],
            id="cells that are wrong",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, name: str, content: bytes, complaints: list[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ArrivalsError) as caught:
        read_arrivals(str(path))
    assert [str(problem) for problem in caught.value.problems] == [f"{path}{complaint}" for complaint in complaints]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("/nowhere.yaml", "No such file or directory", id="missing"),
        pytest.param("/", "Is a directory", id="a folder"),
        pytest.param("\0", "embedded null byte", id="no path at all"),
        pytest.param("", "No such file or directory", id="an empty path"),
    ],
)
def test_a_path_that_cannot_be_read_is_refused(path: str, reason: str) -> None:
    with pytest.raises(ArrivalsError) as caught:
        read_arrivals(path)
    (problem,) = caught.value.problems
    assert (problem.found, problem.file) == (f"cannot be read: {reason}", path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "MAX_BYTES", 10)
    (tmp_path / "a.yaml").write_text("- {at: 10s}")
    with pytest.raises(ArrivalsError, match="the file has more than 10 bytes; split it$"):
        read_arrivals(f"{tmp_path}/a.yaml")


# ---- Entries that cannot be used

DURATION = "must be seconds, or a duration such as 90s, 15m, 1h30m; up to ten years"
QUANTITY = "must be a quantity of zero or more, e.g. 500m, 2 or 1.5Gi"


@pytest.mark.parametrize(
    ("entry", "complaints"),
    [
        pytest.param(7, ["arrivals[0]: Invalid value: 7: must be an object with `at` and a pod"], id="no object"),
        pytest.param({"at": "noon"}, [f'arrivals[0].at: Invalid value: "noon": {DURATION}'], id="a time in words"),
        pytest.param({"at": -1}, [f"arrivals[0].at: Invalid value: -1: {DURATION}"], id="a time before the beginning"),
        pytest.param({"at": True}, [f"arrivals[0].at: Invalid value: true: {DURATION}"], id="a time that is a truth"),
        pytest.param(
            {"run": float("nan")}, [f"arrivals[0].run: Invalid value: nan: {DURATION}"], id="a time that is no number"
        ),
        pytest.param(
            {"run": 1e300}, [f"arrivals[0].run: Invalid value: 1e+300: {DURATION}"], id="a time beyond all days"
        ),
        pytest.param({"run": [1]}, [f"arrivals[0].run: Invalid value: a list: {DURATION}"], id="a time that is a list"),
        pytest.param(
            {"every": "1m"},
            ["arrivals[0].every: `every` needs `until`, which ends it; add `until`"],
            id="a stream without end",
        ),
        pytest.param(
            {"every": 0, "until": "1h"}, ["arrivals[0].every: Invalid value: 0: must be more than 0"], id="a flood"
        ),
        pytest.param(
            {"until": "1h"},
            ["arrivals[0].until: `until` ends what `every` repeats; add `every` or remove `until`"],
            id="an end of nothing",
        ),
        pytest.param(
            {"count": 0}, ["arrivals[0].count: Invalid value: 0: must be a whole number from 1"], id="no pods"
        ),
        pytest.param(
            {"count": 1.5}, ["arrivals[0].count: Invalid value: 1.5: must be a whole number from 1"], id="half pods"
        ),
        pytest.param(
            {"count": "two"}, ['arrivals[0].count: Invalid value: "two": must be a whole number from 1'], id="words"
        ),
        pytest.param(
            {"priority": "high"}, ['arrivals[0].priority: Invalid value: "high": must be a whole number'], id="rank"
        ),
        pytest.param(
            {"cpus": 1},
            [
                "arrivals[0].cpus: unknown field; the fields are at, count, cpu, every, labels, memory, name, "
                "namespace, pod, priority, requests, run, until"
            ],
            id="an unknown field",
        ),
        pytest.param(
            {"cpu": "a lot"}, [f'arrivals[0].cpu: Invalid value: "a lot": {QUANTITY}'], id="an amount in words"
        ),
        pytest.param({"memory": -5}, [f"arrivals[0].memory: Invalid value: -5: {QUANTITY}"], id="less than nothing"),
        pytest.param(
            {"requests": {"example.com/gpu": "x"}},
            [f'arrivals[0].requests[example.com/gpu]: Invalid value: "x": {QUANTITY}'],
            id="an odd amount of something else",
        ),
        pytest.param(
            {"cpu": 1, "requests": {"cpu": 2}},
            ["arrivals[0].requests.cpu: Invalid value: 2: must be empty beside `cpu`"],
            id="an amount twice",
        ),
        pytest.param(
            {"requests": "cpu"}, ['arrivals[0].requests: Invalid value: "cpu": must be an object'], id="no amounts"
        ),
        pytest.param(
            {"labels": ["a"]}, ["arrivals[0].labels: Invalid value: a list: must be an object"], id="labels in a list"
        ),
        pytest.param({"name": 7}, ["arrivals[0].name: Invalid value: 7: must be a string"], id="a number for a name"),
        pytest.param(
            {"pod": "web"}, ['arrivals[0].pod: Invalid value: "web": must be an object'], id="a name for a pod"
        ),
        pytest.param({"pod": {"spec": 5}}, ["arrivals[0].pod.spec: Invalid value: 5: must be an object"], id="no spec"),
        pytest.param(
            {"pod": {"metadata": []}},
            ["arrivals[0].pod.metadata: Invalid value: a list: must be an object"],
            id="no metadata",
        ),
        pytest.param(
            {"pod": {"spec": {"nodeName": "n"}}},
            ['arrivals[0].pod.spec.nodeName: Invalid value: "n": must be empty: the scheduler decides'],
            id="a pod that has a node",
        ),
        pytest.param(
            {"cpu": 1, "pod": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            ["arrivals[0].cpu: Invalid value: 1: must be empty beside containers of the pod's own"],
            id="both forms",
        ),
        pytest.param(
            {"at": "x", "count": -1, "cpu": "y"},
            [
                f'arrivals[0].at: Invalid value: "x": {DURATION}',
                "arrivals[0].count: Invalid value: -1: must be a whole number from 1",
                f'arrivals[0].cpu: Invalid value: "y": {QUANTITY}',
            ],
            id="all faults at once",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(entry: Any, complaints: list[str]) -> None:
    assert problems_of(entry) == complaints


def test_misspelt_fields_of_a_pod_are_told() -> None:
    (complaint,) = problems_of({"pod": {"spec": {"nodeselector": {"a": "b"}}}})
    assert complaint.startswith("arrivals[0].pod.spec.nodeselector: unknown field; ")


def test_names_that_kubernetes_refuses_are_told_where_they_stand() -> None:
    (complaint,) = problems_of({"name": "No Good"})
    assert complaint.startswith('arrivals[0].name: Invalid value: "No Good"')


def test_too_many_pods_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "MAX_ARRIVALS", 100)
    assert problems_of({"count": 10**12}) == ["arrivals[0]: the arrivals are more than 100 pods in all; write fewer"]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), (90, 90), (0.25, 0.25), ("1h30m", 5400), ("500ms", 0.5), ("0", 0), (None, None), ("-1s", None)],
)
def test_durations_are_seconds_or_have_units(written: Any, seconds: float | None) -> None:
    assert parse_duration(written) == (None if seconds is None else round(seconds * NS_PER_S))
