"""A cluster with a data directory is killed again and again under load: what was answered is there afterwards."""

import threading
from pathlib import Path

import pytest

from how_many import costly_examples
from running_cluster import Process, a_process

pytestmark = pytest.mark.slow

KILLS = costly_examples(30)
WRITERS = 4
FEWEST_WRITES = 25
PODS = "/api/v1/namespaces/default/pods"


class Load(threading.Thread):
    """Creates pods and changes them for as long as there is a server, and remembers what was answered."""

    def __init__(self, cluster: Process, name: str) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._name = name
        self.written: dict[str, int] = {}
        """The version of each pod that was answered last, by name."""
        self.has_begun = threading.Event()

    def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                name = f"{self._name}-{number}"
                reply = self._cluster.ask("POST", PODS, _pod(name))
                assert reply.code == 201, reply.body
                self._note(name, reply.body)
                reply = self._cluster.ask(
                    "PATCH",
                    f"{PODS}/{name}",
                    {"metadata": {"labels": {"seen": "yes"}}},
                    {"Content-Type": "application/merge-patch+json"},
                )
                assert reply.code == 200, reply.body
                self._note(name, reply.body)
        except (OSError, ValueError, EOFError):
            return  # the server is gone, as it should be

    def _note(self, name: str, pod: dict[str, dict[str, str]]) -> None:
        self.written[name] = int(pod["metadata"]["resourceVersion"])
        if len(self.written) * WRITERS >= FEWEST_WRITES:
            self.has_begun.set()


def _pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
    }


def test_nothing_that_was_answered_is_lost(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    for round in range(KILLS + 1):
        with a_process("--nodes", "20", "--data-dir", str(tmp_path / "data")) as cluster:
            _check(cluster, kept)
            if round == KILLS:
                _check_scheduling_goes_on(cluster, kept)
                return
            load = [Load(cluster, f"r{round}-{writer}") for writer in range(WRITERS)]
            for writer in load:
                writer.start()
            for writer in load:
                assert writer.has_begun.wait(30)
            cluster.kill()
            for writer in load:
                writer.join(30)
                kept |= writer.written


def _check(cluster: Process, kept: dict[str, int]) -> None:
    pods = {pod["metadata"]["name"]: pod for pod in cluster.ask("GET", PODS).body["items"]}
    for name, version in kept.items():
        assert name in pods, f"{name} was answered and is lost"
        assert int(pods[name]["metadata"]["resourceVersion"]) >= version, f"{name} has fallen back"


def _check_scheduling_goes_on(cluster: Process, kept: dict[str, int]) -> None:
    assert cluster.ask("POST", PODS, _pod("afterwards")).code == 201
    cluster.wait(f"{PODS}/afterwards", lambda pod: pod["status"]["phase"] == "Running")
    for name in kept:
        cluster.wait(f"{PODS}/{name}", lambda pod: bool(pod["spec"].get("nodeName")))


def test_the_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with a_process("--nodes", "1", "--data-dir", str(data)):
        modes = {path.name: path.stat().st_mode & 0o077 for path in data.iterdir() if path.is_file()}
    assert modes and not any(modes.values()), {name: oct(mode) for name, mode in modes.items()}
