"""Commands for clusters of `mooring up` touch no other cluster, whatever a kubeconfig names."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from command import Ran, mooring

from asking import NODES, ask
from cluster_api import an_api
from mooring.api.api_errors import ApiError, forbidden, not_found, unauthorized
from mooring.api.schema.discovery import id_in, identity, prefix_of
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.kubeconfig.editing import Login, write_kubeconfig
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.app.node_actions import NotOurs, own_connection
from recording_server import Recorded, Recorder, a_recorder, refused, said
from running_cluster import a_neighbour

SOME_ID = "0b0dcd0c-93f0-4e09-8d1c-4e2b0f3c7a55"

ACTIONS = [
    ("fail", "prod-1"),
    ("recover", "prod-1"),
    ("remove", "prod-1"),
    ("drain", "prod-1"),
    ("add", "3"),
]


async def real_server(request: Recorded) -> bytes:
    """As kube-apiserver answers: it has Nodes and takes every write, but knows nothing of /mooring."""
    if request.path.startswith("/api/v1/nodes"):
        return said(200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": []})
    if request.path == "/version":
        return said(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.4"})
    return refused(not_found("", "mooring"))


def against(
    answer: Callable[[Recorded], Awaitable[bytes | None]], *arguments: str, folder: Path
) -> tuple[Ran, list[str]]:
    """What `mooring nodes` printed, and what arrived at the server that its kubeconfig names."""

    async def run() -> tuple[Ran, list[str]]:
        async with a_recorder(answer) as recorder:
            write_kubeconfig(folder / "config", Login(recorder.url))
            ran = await asyncio.to_thread(mooring, "nodes", *arguments, "--kubeconfig", folder / "config")
            return ran, recorder.lines

    return asyncio.run(run())


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action[0])
def test_no_write_arrives_at_a_real_cluster(action: tuple[str, str], tmp_path: Path) -> None:
    ran, lines = against(real_server, *action, folder=tmp_path)
    assert lines == ["GET /mooring"]
    assert ran.code == 2 and ran.out == ""
    assert "is not a cluster that `mooring up` started: nothing was changed. Use the export line" in ran.err


@pytest.mark.parametrize(
    "answer",
    [
        said(200, {"kind": "Status", "status": "Success"}),
        said(200, {"kind": "MooringCluster", "metadata": {"uid": "../../api"}}),
        said(200, {"kind": "MooringCluster", "metadata": None}),
        said(200, ["MooringCluster"]),
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
        refused(forbidden("", "", "no")),
        refused(unauthorized()),
        said(302, None, Location="/api"),
    ],
    ids=["another document", "no id", "no metadata", "a list", "a web page", "forbidden", "unauthorized", "redirected"],
)
def test_a_server_that_answers_anything_else_is_refused(answer: bytes, tmp_path: Path) -> None:
    async def same(request: Recorded) -> bytes:
        return answer

    ran, lines = against(same, "remove", "prod-1", folder=tmp_path)
    assert ran.code == 2 and ran.out == ""
    assert {line.partition(" ")[0] for line in lines} == {"GET"}


def test_a_server_that_takes_the_address_later_gets_no_request_for_its_own_nodes(tmp_path: Path) -> None:
    """`mooring up` ends between the check and the write, and another server has its port."""
    seen: list[str] = []

    async def changing(request: Recorded) -> bytes:
        seen.append(request.line)
        return said(200, identity(SOME_ID)) if len(seen) == 1 else await real_server(request)

    ran, lines = against(changing, "remove", "prod-1", folder=tmp_path)
    assert ran.code == 2
    assert lines == ["GET /mooring", f"DELETE {prefix_of(SOME_ID)}/api/v1/nodes/prod-1"]


def test_the_api_below_the_id_is_that_of_the_cluster_and_of_no_other() -> None:
    api = an_api()
    assert ask(api, "GET", "/mooring").body == identity(api.cluster_id)
    node: dict[str, Any] = {"metadata": {"name": "n"}}
    assert ask(api, "POST", f"{prefix_of(SOME_ID)}{NODES}", node).code == 404
    assert ask(api, "POST", f"{prefix_of(api.cluster_id)}{NODES}", node).code == 201
    assert ask(api, "GET", f"{NODES}/n").code == 200
    assert ask(api, "GET", prefix_of(api.cluster_id)).code == 404


def test_own_access_leads_to_the_cluster() -> None:
    async def run(access: ConnectionSettings) -> list[str]:
        async with ApiClient(await own_connection(access, "test"), "test") as client:
            return [node["metadata"]["name"] for node in (await client.list(NODES))["items"]]

    with a_neighbour(nodes=2) as cluster:
        assert asyncio.run(run(find_connection(cluster.kubeconfig))) == ["node-0001", "node-0002"]


def test_ids_are_checked_before_they_become_a_path() -> None:
    assert id_in(identity(SOME_ID)) == SOME_ID
    assert id_in(identity("../../../api/v1")) == ""


def test_a_user_that_the_server_does_not_know_is_told_so() -> None:
    async def run() -> Recorder:
        async def unknown(request: Recorded) -> bytes:
            return refused(unauthorized())

        async with a_recorder(unknown) as recorder:
            with pytest.raises(ApiError, match="Unauthorized"):
                await own_connection(ConnectionSettings(recorder.url), "test")
            return recorder

    assert asyncio.run(run()).lines == ["GET /mooring"]


def test_the_refusal_names_the_server() -> None:
    assert str(NotOurs("https://prod.example")).startswith("https://prod.example is not a cluster")
