"""An experiment of the study, on three nodes and a workload of a few pods; and the policies as users get them."""

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import gpu_sharing_study as study

NODES = [
    {"sn": f"node-{number}", "cpu_milli": "16000", "memory_mib": "65536", "gpu": "2", "model": model}
    for number, model in enumerate(("T4", "T4", "V100"))
]
PODS = [
    {
        "name": f"pod-{number}",
        "cpu_milli": cpu,
        "memory_mib": "1024",
        "num_gpu": count,
        "gpu_milli": milli,
        "gpu_spec": spec,
    }
    for number, (cpu, count, milli, spec) in enumerate(
        [
            ("4000", "1", "500", ""),
            ("8000", "1", "1000", ""),
            ("1000", "0", "0", ""),
            ("2000", "2", "1000", "V100|A100"),
        ]
    )
]


def a_workload(folder: Path) -> Path:
    path = folder / "workload.csv"
    lines = [",".join(PODS[0]), *(",".join(pod.values()) for pod in PODS)]
    path.write_text("\n".join(lines))
    return path


def test_pods_arrive_until_they_ask_for_enough() -> None:
    """Each pod once, then any pod again. As in the study, a pod counts with the share of one GPU when it is compared."""
    target = 1.3 * 6000
    order = list(study.arrivals(PODS, target, Random(1)))
    assert sorted(order[: len(PODS)]) == [0, 1, 2, 3]
    asked = sum(study.gpu_milli(PODS[index]) for index in order)
    assert target - 1000 < asked <= target + 1000


@pytest.mark.parametrize("policy", study.POLICIES)
def test_an_experiment_counts_the_gpus_that_pods_got(tmp_path: Path, policy: str) -> None:
    settings = study.settings_of(policy, a_workload(tmp_path))
    result = study.experiment(NODES, PODS, settings, 42)
    again = study.experiment(NODES, PODS, settings, 42)
    assert (result.allocated, result.on_the_way) == (again.allocated, again.on_the_way)
    assert 50 <= result.allocated <= 100
    assert result.decisions == len(list(study.arrivals(PODS, 1.3 * 6000, _after_nodes(42))))


def _after_nodes(seed: int) -> Random:
    """The generator as it is when the nodes have their order."""
    random = Random(seed)
    random.shuffle(list(range(len(NODES))))
    return random


@pytest.mark.parametrize("policy", study.POLICIES.values())
def test_each_configuration_places_the_pods_of_the_example(monkeypatch: Any, policy: str) -> None:
    monkeypatch.chdir(study.EXAMPLE.parent.parent)
    arguments = ["simulate", "examples/gpu_sharing/cluster.yaml", "--plugin", "examples/gpu_sharing"]
    arguments += ["--config", f"examples/gpu_sharing/policies/{policy}.yaml"]
    ran = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "0/4 nodes are available: 4 node(s) had no GPU of the model." in ran.stdout
    assert "infer-1" in ran.stdout.partition("Placed\n")[2]
