"""A disk that refuses writes: what is answered as failed has not happened, for anybody, and what is acknowledged is there."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import ask
from full_databases import FullDatabase, full_databases
from mooring.api.api_errors import ApiError
from mooring.apiserver.journal import Journal, JournalError, LossError
from mooring.apiserver.store import Store, StoreWrite
from mooring.embedded.embedded_cluster import EmbeddedSettings
from virtual_cluster import VirtualCluster

MAPS = "/configmaps"


def a_journal(folder: Path) -> tuple[Journal, FullDatabase]:
    with full_databases() as opened:
        journal = Journal(folder)
    opened[0].count = -1
    return journal, opened[0]


def names_of(store: Store) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in store.all(MAPS)}


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete", "finish"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=25,
)


def act(store: Store, verb: str, name: str, number: int) -> dict[str, Any] | None:
    """One write. Returns what the store must have under the name afterwards. A write that cannot be made is none."""
    key, item = ("d", name), {"metadata": {"namespace": "d", "name": name}, "n": number}
    if (verb == "create") == (store.find(MAPS, key) is not None):
        return store.find(MAPS, key)
    if verb in ("create", "update"):
        return getattr(store, verb)(MAPS, key, item)  # type: ignore[no-any-return]
    if verb == "delete":
        store.delete(MAPS, key)
    else:
        store.finish(MAPS, key, item)
    return None


@given(steps=STEPS, refused=st.sets(st.integers(0, 120), max_size=40), restarts=st.sets(st.integers(0, 24), max_size=3))
def test_store_journal_and_what_was_acknowledged_are_the_same(
    steps: list[tuple[str, str, int]], refused: set[int], restarts: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        acknowledged: dict[str, Any] = {}
        heard: dict[str, Any] = {}

        def hear(write: StoreWrite) -> None:
            if write.type == "DELETED":
                del heard[write.key[1]]
            else:
                heard[write.key[1]] = write.object

        journal, database = a_journal(Path(folder))
        database.refuses = refused
        store = journal.open_store()
        store.listen(hear)
        for number, step in enumerate(steps):
            version = store.version
            try:
                left = act(store, *step)
            except ApiError as fault:
                assert (fault.code, fault.reason) == (500, "InternalError")
                assert store.version == version, "a version that nobody got is given to the next write"
            else:
                acknowledged.pop(step[1], None)
                acknowledged |= {step[1]: left} if left is not None else {}
            assert names_of(store) == acknowledged == heard
            if number in restarts:
                count = database.count
                journal.close()
                journal, database = a_journal(Path(folder))
                database.refuses, database.count = refused, count
                store = journal.open_store()
                store.listen(hear)
                assert names_of(store) == acknowledged
        database.refuses = set()
        act(store, "create" if "z" not in acknowledged else "update", "z", 1)
        version = store.version
        journal.close()
        again = Journal(Path(folder))
        assert again.losses == []
        reopened = again.open_store()
        assert reopened.version == version
        assert {name: item for name, item in names_of(reopened).items() if name != "z"} == acknowledged
        again.close()


# ---- the whole cluster


def test_a_cluster_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    """Controllers, kubelets and the scheduler meet the full disk at any point, report it once, and finish afterwards."""
    told: list[str] = []
    with full_databases() as opened:
        cluster = VirtualCluster(EmbeddedSettings(data_dir=tmp_path), lambda text, fault: told.append(text))
    database = opened[0]
    for number in range(3):
        cluster.node(f"node-{number}", cpu="10")
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    }
    assert ask(cluster.api, "POST", "/apis/apps/v1/namespaces/default/deployments", deployment).code == 201
    draw = random.Random(7)
    for _ in range(40):
        database.refuses = {database.count + draw.randrange(1, 30) for _ in range(8)}
        cluster.cluster.step(limit=3)
        cluster.wait(0.05)
    told.clear()
    database.refuses = {-1}
    version = cluster.api.store.version
    cluster.wait(120)
    assert cluster.api.store.version == version, "nothing happens that the disk has not"
    assert ask(cluster.api, "GET", "/api/v1/nodes").code == 200
    assert ask(cluster.api, "GET", "/readyz").code == 500
    database.refuses = set()
    cluster.wait(180)
    assert ask(cluster.api, "GET", "/readyz").code == 200
    assert [text.rpartition("disk is full. ")[2] for text in told] == [
        "Reads are answered; writes fail until there is room",
        "the data directory can be written again",
    ]
    pods = ask(cluster.api, "GET", "/api/v1/namespaces/default/pods").body["items"]
    assert len(pods) == 6 and all(pod["spec"].get("nodeName") for pod in pods)
    kept = {storage: cluster.api.store.all(storage) for storage in ("/pods", "/nodes", "apps/deployments")}
    cluster.cluster.close()
    again = Journal(tmp_path)
    store = again.open_store()
    assert again.losses == []
    for storage, items in kept.items():
        assert sorted(map(str, store.all(storage))) == sorted(map(str, items))
    again.close()


# ---- a real disk


@contextmanager
def a_small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 2 MiB in memory. Skips where this process may not mount one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a tmpfs is not permitted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs is of Linux")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with a_small_disk(tmp_path) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        journal = Journal(disk / "data")
        store = journal.open_store()
        acknowledged: list[str] = []
        refused: list[str] = []
        for number in range(300):
            try:
                store.create(MAPS, ("d", f"m{number}"), _large(f"m{number}"))
                acknowledged.append(f"m{number}")
            except ApiError:
                refused.append(f"m{number}")
        assert acknowledged and refused
        assert sorted(names_of(store)) == sorted(acknowledged)
        journal.close()
        fill(disk / "rest")
        with pytest.raises(
            JournalError, match=r"mooring\.db cannot be opened: the disk is full; free some space"
        ) as full:
            Journal(disk / "data")
        assert not isinstance(full.value, LossError), "a full disk has lost nothing"
        ballast.unlink()
        journal = Journal(disk / "data")
        store = journal.open_store()
        assert sorted(names_of(store)) == sorted(acknowledged)
        store.create(MAPS, ("d", "after"), _large("after"))
        acknowledged.append("after")
        journal.close()
        again = Journal(disk / "data")
        assert (again.losses, sorted(names_of(again.open_store()))) == ([], sorted(acknowledged))
        again.close()


def fill(path: Path) -> None:
    """Write until there is no room at all."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1024)):
            pass


def _large(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "d", "name": name}, "data": {"filler": "x" * 10_000}}
