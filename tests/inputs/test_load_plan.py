"""Plans of generated loads: what they may say, and every fault with the place where it stands."""

from pathlib import Path
from typing import Any

import pytest

from mooring.inputs.load_plan import LoadPlanError, load_plan_of, read_load_plan
from mooring.kit.clock import NS_PER_S


def problems_of(**fields: Any) -> list[str]:
    with pytest.raises(LoadPlanError) as caught:
        load_plan_of({"pods": 10, **fields})
    return [str(problem) for problem in caught.value.problems]


def test_only_the_number_of_pods_is_needed() -> None:
    plan = load_plan_of({"pods": 10})
    assert (plan.pods, plan.templates, plan.seed, plan.nodes) == (10, 400, 1, [])
    assert (plan.ns("over"), plan.ns("median")) == (24 * 3600 * NS_PER_S, 600 * NS_PER_S)


def test_a_plan_is_read_from_yaml(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(
        "pods: 7\nover: 90\nrun: {median: 1m30s}\nnodes: [{name: a, count: 2, cpu: 4}]\n"
    )
    plan = read_load_plan(f"{tmp_path}/day.yaml")
    assert (plan.pods, plan.ns("over"), plan.ns("median")) == (7, 90 * NS_PER_S, 90 * NS_PER_S)
    assert [(pool.name, pool.count, pool.cpu, pool.memory) for pool in plan.nodes] == [("a", 2, 4, "128Gi")]


def test_problems_have_their_line_and_come_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "day.yaml"
    path.write_text("pods: 0\nover: soon\nnode: 3\nnodes:\n- cpu: x\n  count: 0\n")
    with pytest.raises(LoadPlanError) as caught:
        read_load_plan(str(path))
    assert [str(problem) for problem in caught.value.problems] == [
        f"{path}:3: node: unknown field; did you mean nodes?",
        f"{path}:1: pods: Invalid value: 0: must be from 1 to 10000000",
        f'{path}:2: over: Invalid value: "soon": '
        "must be seconds, or a duration such as 90s, 15m, 1h30m; up to ten years",
        f"{path}:6: nodes[0].count: Invalid value: 0: must be from 1 to 1000000",
        f'{path}:5: nodes[0].cpu: Invalid value: "x": must be a quantity above 0, such as 4, 500m or 16Gi',
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"pods": None}, "pods: Required value: the number of pods that arrive"),
        ({"pods": "many"}, 'pods: Invalid value: "many": must be an integer'),
        ({"pods": 10_000_001}, "pods: Invalid value: 10000001: must be from 1 to 10000000"),
        ({"seed": -1}, "seed: Invalid value: -1: must be from 0 to 9223372036854775807"),
        ({"templates": 0}, "templates: Invalid value: 0: must be from 1 to 100000"),
        ({"services": 1.5}, "services: Invalid value: 1.5: must be from 0 to 1"),
        ({"swing": float("nan")}, "swing: Invalid value: nan: must be from 0 to 1"),
        ({"burst": 0.5}, "burst: Invalid value: 0.5: must be from 1 to 10000"),
        ({"over": 0}, "over: Invalid value: 0: must be more than 0"),
        ({"run": {"median": "0s"}}, 'run.median: Invalid value: "0s": must be more than 0'),
        ({"run": {"hours": 3}}, "run.hours: unknown field; the fields are median, sigma, longest"),
        ({"run": 3}, "run: Invalid value: 3: must be an object"),
        (
            {"nodes": [{"cpu": 0}]},
            "nodes[0].cpu: Invalid value: 0: must be a quantity above 0, such as 4, 500m or 16Gi",
        ),
        (
            {"nodes": [{"resources": {"example.com/gpu": "-1"}}]},
            'nodes[0].resources[example.com/gpu]: Invalid value: "-1": '
            "must be a quantity above 0, such as 4, 500m or 16Gi",
        ),
        ({"nodes": [{}, {}]}, 'nodes[1].name: "node" names another pool too; write another name'),
        (
            {"nodes": [{"count": 600_000}, {"name": "b", "count": 600_000}]},
            "nodes: the pools have 1200000 nodes in all; write at most 1000000",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_field_is_refused(fields: dict[str, Any], problem: str) -> None:
    assert problems_of(**fields) == [problem]


@pytest.mark.parametrize("written", [None, [], "pods"])
def test_what_is_no_object_is_refused(written: Any) -> None:
    with pytest.raises(LoadPlanError, match="must be an object with `pods`, `nodes` and so on"):
        load_plan_of(written)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the file is empty, or has only comments"),
        (b"pods: 1\n---\npods: 2\n", "the file has 2 documents; write one"),
        (b"#" * ((1 << 20) + 1), "the file has more than 1048576 bytes; write fewer pools"),
    ],
    ids=["empty", "two documents", "too long"],
)
def test_a_file_has_one_plan(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "day.yaml").write_bytes(text)
    with pytest.raises(LoadPlanError, match=problem):
        read_load_plan(f"{tmp_path}/day.yaml")


def test_text_that_is_no_yaml_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text("pods: [1\n")
    with pytest.raises(LoadPlanError, match=r"day.yaml:\d+: column \d+: "):
        read_load_plan(f"{tmp_path}/day.yaml")
