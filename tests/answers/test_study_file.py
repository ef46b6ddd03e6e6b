"""The file of a study: what is filled in, and what is wrong with it, by line."""

from pathlib import Path
from typing import Any

import pytest

from mooring.answers.study.study_file import StudyError, read_study
from tiny_studies import HEADER, a_study

ROOT = Path(__file__).parents[2]


def problems(given: Any, **values: Any) -> list[str]:
    with pytest.raises(StudyError) as caught:
        read_study(given, values)
    return [str(problem) for problem in caught.value.problems]


def a_small_study(**fields: Any) -> dict[str, Any]:
    return {**HEADER, "clusters": [{"name": "c", "manifests": "c.yaml"}], **fields}


def test_problems_of_a_file_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("""\
apiVersion: mooring.dev/v1
kind: Studdy
clusters:
  - {name: c, node: n.csv, format: openb}
workloads:
  - name: w
    pods: p.csv
    format: openbb
    untill: {percent: 1}
seeds: none
metricks: []
""")
    assert problems(path) == [
        f"{path}:11: metricks: unknown field; did you mean metrics?",
        f"{path}:4: clusters[0].node: unknown field; did you mean nodes?",
        f"{path}:9: workloads[0].untill: unknown field; did you mean until?",
        f'{path}:2: kind: Invalid value: "Studdy": must be Study',
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"clusters": []}, "clusters: Required value: at least one cluster"),
        (
            {"clusters": [{"name": "c"}]},
            "clusters[0]: has no source; write one of nodes, manifests, recording",
        ),
        (
            {"clusters": [{"name": "c", "nodes": "n.csv", "format": "openbb"}]},
            'clusters[0].format: Invalid value: "openbb": must be a format of nodes, one of: openb, pai-tasks, '
            "pai-instances, azure-packing, google-2019",
        ),
        (
            {"workloads": [{"name": "w", "pods": "p.csv", "arrivals": "a.yaml", "format": "openb"}]},
            "workloads[0]: has pods, arrivals; write one of pods, arrivals, generate, recording",
        ),
        (
            {"workloads": [{"name": "w", "arrivals": "a.yaml", "arrive": "one-by-one"}]},
            "workloads[0].arrive: one-by-one needs a table of pods; write pods and format",
        ),
        (
            {"workloads": [{"name": "w", "pods": "p.csv", "format": "openb", "until": {"percent": 5}}]},
            "workloads[0].until: only pods that arrive one-by-one have it; remove it",
        ),
        (
            {"workloads": [{"name": "w", "pods": "p", "format": "openb", "arrive": "one-by-one", "givesUp": False}]},
            "workloads[0].givesUp: pods that arrive one-by-one cannot wait; write true, or arrive: over-time",
        ),
        (
            {"configurations": [{"name": "a"}, {"name": "a"}]},
            'configurations[1].name: "a" is the name of another one; write another name',
        ),
        (
            {"configurations": [{"name": "a", "ties": "random"}]},
            'configurations[0].ties: Invalid value: "random": must be one of: seed, name, shuffled',
        ),
        (
            {"seeds": [1, 1]},
            "seeds: Invalid value: a list: must be a number of seeds, a list of different whole numbers, or a text such "
            "as 1..10",
        ),
        ({"loads": [0]}, "loads[0]: Invalid value: 0.0: must be above 0, up to 1000, and not given twice"),
        ({"metrics": ["place"]}, 'metrics[0]: "place" is no metric; did you mean placed?'),
        ({"metrics": [{}]}, "metrics[0]: has no metric; write one of allocated, fragmented, python"),
        (
            {"metrics": [{"python": "own.py"}]},
            'metrics[0].python: Invalid value: "own.py": must be FILE:FUNCTION, such as metrics.py:stranded',
        ),
        (
            {"metrics": ["placed", "placed"]},
            "metrics: two metrics have the column placed; write a `column` for one of them",
        ),
        (
            {"metrics": ["placed", {"allocated": "cpu", "at": [50]}]},
            "metrics[1].at: no workload arrives one-by-one with `until`; remove it, or add such a workload",
        ),
        (
            {"configurations": [{"name": "a", "config": "{folder}/a.yaml"}]},
            "configurations[0].config: {folder} is no parameter; add it to parameters",
        ),
        (
            {"parameters": {"data": {"about": "a folder", "defult": 1}}},
            "parameters.data.defult: unknown field; did you mean default?",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_told(fields: dict[str, Any], told: str) -> None:
    assert told in problems(a_small_study(**fields))


def test_a_parameter_that_is_needed_says_what_it_is() -> None:
    study = a_small_study(parameters={"data": {"about": "the folder of a trace"}, "plain": None, "other": 5})
    assert problems(study, other=6) == [
        "parameters.data: the study needs a value: --set data=VALUE; it is the folder of a trace",
        "parameters.plain: the study needs a value: --set plain=VALUE",
    ]
    assert problems(study, dta=1, data=1, plain=1) == ["--set dta: the study has no such parameter; did you mean data?"]


def test_values_are_filled_in_and_paths_are_relative_to_their_origin(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("""\
apiVersion: mooring.dev/v1
kind: Study
parameters: {data: null, share: 70}
clusters: [{nodes: "{data}/n.csv.gz", format: openb}]
configurations: [{config: sub/a.yaml, set: {parallelism: "{share}", x: "{workload.pods}"}}]
seeds: 3..5
""")
    study = read_study(path, {"data": "here"})
    (cluster,), (config,) = study.clusters, study.configurations
    assert (cluster.name, cluster.nodes) == ("n", str(Path("here/n.csv.gz").absolute()))
    assert (config.name, config.config) == ("a", str(tmp_path / "sub" / "a.yaml"))
    assert config.set == {"parallelism": "70", "x": "{workload.pods}"}
    assert (study.seeds, study.loads, study.name) == ((3, 4, 5), (1.0,), "s")
    assert [each.name for each in study.workloads] == ["pending"]


def test_the_studies_of_the_examples_can_be_read(tmp_path: Path) -> None:
    study = read_study(ROOT / "examples" / "studies" / "fragmentation.yaml", {"traces": str(tmp_path)})
    assert [len(each) for each in (study.clusters, study.workloads, study.configurations, study.seeds)] == [
        1,
        17,
        6,
        10,
    ]
    assert study.workloads[3].pods == str(tmp_path / "workloads" / f"{study.workloads[3].name}.csv.gz")
    assert [each.name for each in study.configurations] == [
        *("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
    ]
    assert study.columns[:2] == ["allocated_gpu_percent", "allocated_at_80"]
    assert read_study(ROOT / "examples" / "studies" / "packing.yaml").columns


def test_a_study_is_an_object(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("- a\n")
    assert problems(path) == [
        f"{path}:1: Invalid value: a list: must be an object with apiVersion: mooring.dev/v1 and kind: Study"
    ]
    assert read_study(a_study(tmp_path)).digest != read_study(a_study(tmp_path, seeds=4)).digest
