"""Two schedulers under load: the leader is stopped past its lease and continues, again and again."""

import asyncio
from pathlib import Path

import pytest

from how_many import IS_SOAK
from running_cluster import a_process
from split_brain import Judge, play

pytestmark = pytest.mark.slow

ROUNDS = 20 if IS_SOAK else 1


def test_an_instance_whose_lease_has_run_out_sends_nothing(tmp_path: Path) -> None:
    with a_process("--nodes", "20", "--no-scheduler") as cluster:
        arena = asyncio.run(play(cluster.kubeconfig, tmp_path, ROUNDS))
    assert arena.judge.offences == []
    assert arena.judge.binds > ROUNDS * 64, "there was load"
    assert arena.statuses == [1] * ROUNDS, "whoever was stopped has lost its lease and says so"
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text()


def test_the_judge_sees_writes_without_a_lease() -> None:
    judge = Judge()
    judge.wrote(0, 1.0, "POST /p/binding")
    judge.renewed(0, 2.0, {"holderIdentity": "a", "leaseDurationSeconds": 4})
    judge.wrote(0, 5.9, "POST /p/binding")
    judge.wrote(0, 6.0, "PATCH /p/status")
    judge.renewed(1, 6.5, {"holderIdentity": "b", "leaseDurationSeconds": 4})
    judge.wrote(0, 6.6, "POST /p/binding")
    judge.renewed(1, 7.0, {"holderIdentity": ""})
    judge.wrote(1, 7.1, "POST /p/binding")
    assert judge.offences == [
        "POST /p/binding by instance 0: the lease is that of nobody, +1.000 s after its end",
        "PATCH /p/status by instance 0: the lease is that of instance 0, +0.000 s after its end",
        "POST /p/binding by instance 0: the lease is that of instance 1, -3.900 s after its end",
        "POST /p/binding by instance 1: the lease is that of nobody, +0.100 s after its end",
    ]
    assert (judge.binds, judge.binds_without_lease) == (4, 3)
