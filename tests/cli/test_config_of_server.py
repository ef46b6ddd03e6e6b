"""`mooring config check --context`: the versions in which a cluster serves what a scheduler watches, and what is missing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from older_server import CLAIMS, GROUPS, NO_DEVICES, RULES, SLICES, V1_33, V1_36, OlderServer, Release, an_older_server
from recording_server import nowhere


def written_to(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": server}}]
    contexts = [{"name": "old", "context": {"cluster": "c", "user": "u"}}]
    content = {"clusters": clusters, "contexts": contexts, "users": [{"name": "u", "user": {}}]}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "old", **content}))
    return str(path)


def checked(
    folder: Path, release: Release, *arguments: str, prepare: Callable[[OlderServer], object] = lambda server: None
) -> Result:
    """What the command says about a server, on a thread of its own: it has its own event loop."""

    async def run() -> Result:
        async with an_older_server(release) as server:
            prepare(server)
            file = written_to(folder, server.url)
            command = ["config", "check", "--kubeconfig", file, "--context", "old", *arguments]
            return await asyncio.to_thread(CliRunner().invoke, main, command)

    return asyncio.run(run())


def states(result: Result) -> dict[str, list[str]]:
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 3 and row[2] in ("ok", "not served", "not allowed")}


def test_versions_that_are_served_are_listed(tmp_path: Path) -> None:
    done = checked(tmp_path, V1_33, "--feature-gates", "DRADeviceTaintRules=true")
    shown = states(done)
    assert done.exit_code == 0 and not done.stderr
    assert shown[CLAIMS] == ["v1beta1", "ok"] and shown[RULES] == ["v1alpha3", "ok"] and shown["pods"] == ["v1", "ok"]


@pytest.mark.parametrize("is_hidden", [False, True], ids=["discovery", "no discovery"])
def test_what_is_missing_is_said_and_is_no_error(tmp_path: Path, is_hidden: bool) -> None:
    def prepare(server: OlderServer) -> None:
        server.forbids.add("csinodes.storage.k8s.io")
        server.hides.update(("/api", "/apis") if is_hidden else ())

    done = checked(tmp_path, NO_DEVICES, prepare=prepare)
    shown = states(done)
    assert done.exit_code == 0
    assert shown[SLICES] == ["-", "not served"] and shown["csinodes.storage.k8s.io"] == ["v1", "not allowed"]
    assert 'Add this rule to the ClusterRole of the scheduler: {apiGroups: ["storage.k8s.io"]' in done.stderr
    assert "note: Failed to watch resourceslices.resource.k8s.io: the server does not serve" in done.stderr


def test_kinds_behind_a_gate_are_listed_with_the_gate(tmp_path: Path) -> None:
    assert GROUPS not in states(checked(tmp_path, V1_36, "--feature-gates", "GenericWorkload=false"))
    assert GROUPS in states(checked(tmp_path, V1_36, "--feature-gates", "GenericWorkload=true"))


def test_a_server_without_pods_is_refused(tmp_path: Path) -> None:
    done = checked(tmp_path, Release(), prepare=lambda server: server.forbids.add("pods"))
    assert done.exit_code == 2 and states(done)["pods"] == ["v1", "not allowed"]
    assert "Failed to watch pods: " in done.stderr and "The scheduler cannot schedule without it." in done.stderr


def test_a_server_that_does_not_answer_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["config", "check", "--kubeconfig", written_to(tmp_path, nowhere())])
    assert done.exit_code == 2 and "cannot connect" in done.stderr and "Traceback" not in done.stderr
