"""`mooring bench`: the figures it prints, and the scenarios that it refuses."""

import json
from pathlib import Path

import pytest
from command import as_manifest, mooring

from build import a_node, a_pod


def test_the_figures_are_one_line_of_json(tmp_path: Path) -> None:
    pods = [
        a_pod(name, cpu=cpu, schedulerName="default-scheduler") for name, cpu in (("a", "1"), ("b", "1"), ("c", "9"))
    ]
    objects = [as_manifest(item) for item in (a_node("n", cpu="4"), *pods)]
    scenario = {"name": "three", "config": None, "objects": objects, "pods": [pod.key for pod in pods]}
    (tmp_path / "three.json").write_text(json.dumps(scenario))
    ran = mooring("bench", tmp_path / "three.json")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    figures = json.loads(ran.out)
    assert list(figures) == ["name", "pods", "scheduled", "failed", "seconds", "perSecond", "p50us", "p99us"]
    assert {key: figures[key] for key in ("name", "pods", "scheduled", "failed")} == {
        "name": "three",
        "pods": 3,
        "scheduled": 2,
        "failed": 1,
    }
    assert 0 < figures["p50us"] <= figures["p99us"]


def test_a_scenario_without_pods_is_measured_as_nothing() -> None:
    ran = mooring("bench", "-", stdin=b"{}")
    assert json.loads(ran.out)["perSecond"] == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "Input data was truncated", id="an empty file"),
        pytest.param(b"kind: Pod", "JSON is malformed: invalid character (byte 0)", id="no JSON"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="no scenario"),
        pytest.param(
            b'{"objects": [{"kind": 7}]}', "objects[0]: Expected `str`, got `int` - at `$.kind`", id="no object"
        ),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.json").write_bytes(content)
    ran = mooring("bench", "odd.json")
    assert (ran.code, ran.out, ran.err) == (2, "", f"odd.json: {complaint}\n")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json"):
        ran = mooring("bench", path)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[-1].startswith("Error: Invalid value for 'SCENARIO': ")
