"""The study of the paper in a reduced form, on three nodes and a few pods; and the policies as users get them."""

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

ROOT = Path(__file__).parents[2]
STUDY = "examples/studies/fragmentation.yaml"
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
FILES = ("random", "dot-prod", "gpu-clustering", "gpu-packing", "best-fit", "fgd")
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,16000,65536,2,T4\nn1,16000,65536,2,T4\nn2,16000,65536,2,V100\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
share,4000,1024,1,500,
whole,8000,1024,1,1000,
plain,1000,1024,0,0,
two,2000,1024,2,1000,V100|A100
"""


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def traces(folder: Path) -> Path:
    (folder / "gpu_nodes.csv.gz").write_bytes(gzip.compress(NODES.encode()))
    (folder / "workloads").mkdir()
    (folder / "workloads" / "default.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    return folder


def studied(folder: Path, results: Path) -> list[dict[str, str]]:
    arguments = ["study", STUDY, "--set", f"traces={folder}", "--only", "workload=default", "--only", "seed=1,2"]
    ran = CliRunner().invoke(main, [*arguments, "--processes", "1", "--results", str(results)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    with results.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_study_runs_every_policy_and_counts_gpus(tmp_path: Path) -> None:
    folder = traces(tmp_path)
    rows = studied(folder, tmp_path / "runs.csv")
    assert sorted((row["policy"], row["seed"]) for row in rows) == sorted((p, s) for p in POLICIES for s in "12")
    assert {row["failed"] for row in rows} == {""}
    for row in rows:
        # All pods together ask for 3,500 of 6,000 thousandths: pods are drawn again until they ask for 7,800 or a bit more.
        assert 50 <= float(row["allocated_gpu_percent"]) <= 100
        assert 50 <= float(row["allocated_at_80"]) <= float(row["allocated_at_120"])
    kept = ("policy", "seed", "pods", "allocated_gpu_percent", "allocated_at_100")
    again = studied(folder, tmp_path / "again.csv")
    assert [[row[name] for name in kept] for row in again] == [[row[name] for name in kept] for row in rows]


def test_without_data_the_study_says_where_they_are() -> None:
    ran = CliRunner().invoke(main, ["study", STUDY])
    assert ran.exit_code == 2
    assert "github.com/alibaba/clusterdata" in ran.output


@pytest.mark.parametrize("policy", FILES)
def test_each_configuration_places_the_pods_of_the_example(policy: str) -> None:
    arguments = ["simulate", "examples/gpu_sharing/cluster.yaml", "--plugin", "examples/gpu_sharing"]
    arguments += ["--config", f"examples/gpu_sharing/policies/{policy}.yaml"]
    ran: Any = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "0/4 nodes are available: 4 node(s) had no GPU of the model." in ran.stdout
    assert "infer-1" in ran.stdout.partition("Placed\n")[2]
