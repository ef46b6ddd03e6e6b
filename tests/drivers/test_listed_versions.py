"""Lists against watches: what a watch has lost is found, what is merely late is not, and reflectors get what they missed."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from fake_client import FakeClient
from mooring.api.api_errors import ApiError, internal_error, not_found
from mooring.apiclient.http_requests import ConnectionLost
from mooring.apiclient.reflectors.reflector import WATCHED, Reflector, ReflectorOptions
from mooring.drivers.listed_versions import MAX_READ, PAGE, ListedVersions, ObjectPlace
from mooring.model.node import Node
from mooring.model.pod import Pod
from scripted_watches import Story

JsonObject = dict[str, Any]
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


def a_node(name: str, version: int, uid: str = "") -> JsonObject:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}}


def a_pod(name: str, version: int, phase: str = "Running") -> JsonObject:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "status": {"phase": phase}}


class Server(FakeClient):
    """An API server with nodes and pods. It can be out of order."""

    def __init__(self, version: int = 10) -> None:
        self.version = version
        self.objects: dict[str, list[JsonObject]] = {NODES: [], PODS: []}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.fault: Exception | None = None

    async def get_bytes(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        self.asked.append((path, dict(params or {})))
        if self.fault is not None:
            raise self.fault
        return msgspec.json.encode(self._page(path, params or {}) if path in self.objects else self._one(path))

    def _page(self, path: str, params: Mapping[str, str]) -> JsonObject:
        start, limit = int(params.get("continue") or 0), int(params["limit"])
        items, left = self.objects[path][start : start + limit], self.objects[path][start + limit :]
        token = {"continue": str(start + limit)} if left else {}
        return {"metadata": {"resourceVersion": str(self.version), **token}, "items": items}

    def _one(self, path: str) -> JsonObject:
        listed = self.objects[NODES if path.startswith(NODES) else PODS]
        name = path.rpartition("/")[2]
        found = [item for item in listed if item["metadata"]["name"] == name]
        if not found:
            raise not_found(path, name)
        return found[0]

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None, limit: int = 0) -> list[bytes]:
        raise AssertionError("nobody lists for a watch")

    def watch(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        raise AssertionError("nobody watches")


class Stage:
    """Reflectors of nodes and pods that have listed what `nodes` and `pods` say, beside a server that may have more."""

    def __init__(self, *nodes: JsonObject, pods: tuple[JsonObject, ...] = (), version: int = 10) -> None:
        self.story, self.server = Story(), Server(version)
        options = ReflectorOptions(report=self.story.report)
        watched = [each for each in WATCHED if each.struct in (Node, Pod)]
        self.reflectors = [Reflector(self.server, each, self.story, options) for each in watched]
        for reflector in self.reflectors:
            items = nodes if reflector.spec.struct is Node else pods
            self._list(reflector, {"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": list(items)})
        self.server.objects = {NODES: list(nodes), PODS: list(pods)}
        self.lists = ListedVersions(lambda: self.reflectors, self.server, self.server)

    def _list(self, reflector: Reflector, page: JsonObject) -> None:
        reflector.mirror.begin_list()
        version = reflector.mirror.take_page(msgspec.json.encode(page))
        for _ in reflector.mirror.complete(version, ""):
            pass

    def watch_shows(self, item: JsonObject) -> None:
        reflector = next(each for each in self.reflectors if each.spec.struct is Node)
        reflector.mirror.take(msgspec.json.encode({"type": "MODIFIED", "object": item}))

    async def behind(self) -> list[ObjectPlace]:
        return [place async for compare in self.lists.pages() for place in compare()]

    def missed(self) -> list[str]:
        """What a list finds, and the API server confirms, in words."""

        async def ask() -> list[str]:
            behind = await self.behind()
            await self.lists.read(behind)
            return [str(each) for each in self.lists.missed(behind)]

        return asyncio.run(ask())

    def mend(self) -> None:
        async def ask() -> None:
            behind = await self.behind()
            await self.lists.read(behind)
            for each in self.lists.missed(behind):
                await self.lists.mend(each)

        asyncio.run(ask())


def test_a_list_that_agrees_finds_nothing() -> None:
    stage = Stage(a_node("a", 1), a_node("b", 2), pods=(a_pod("p", 3),))
    assert stage.missed() == []
    assert [path for path, _ in stage.server.asked] == [NODES, PODS]


def _changed(stage: Stage) -> None:
    stage.server.objects[NODES][0] = a_node("a", 11)


def _created(stage: Stage) -> None:
    stage.server.objects[NODES].append(a_node("c", 11))


def _deleted(stage: Stage) -> None:
    del stage.server.objects[NODES][0]


def _replaced(stage: Stage) -> None:
    stage.server.objects[NODES][0] = a_node("a", 11, "another")


def _finished(stage: Stage) -> None:
    """The list leaves it out, and so should the watch; read alone it is there."""
    stage.server.objects[PODS] = []


LOST: dict[str, tuple[Callable[[Stage], None], str]] = {
    "an update": (_changed, "Node a: version: believed 1 of uid-a, fresh 11"),
    "a creation": (_created, "Node c: version: believed there is none, fresh 11"),
    "a deletion": (_deleted, "Node a: version: believed 1 of uid-a, fresh there is none"),
    "a deletion and a creation": (_replaced, "Node a: version: believed 1 of uid-a, fresh 11"),
    "the end of a pod": (_finished, "Pod default/p: version: believed 3 of uid-p, fresh there is none"),
}


@pytest.mark.parametrize("what", LOST)
def test_what_a_watch_has_lost_is_found_and_handed_to_the_reflector(what: str) -> None:
    lose, said = LOST[what]
    stage = Stage(a_node("a", 1), a_node("b", 2), pods=(a_pod("p", 3),))
    lose(stage)
    assert stage.missed() == [said]
    stage.mend()
    assert stage.missed() == []
    assert any(reflector.mirror.is_in_doubt for reflector in stage.reflectors), "a list follows"
    assert all(reflector.version == "10" for reflector in stage.reflectors), "the watch goes on from where it is"


def test_a_watch_that_is_merely_late_has_lost_nothing() -> None:
    stage = Stage(a_node("a", 1))
    stage.server.objects[NODES][0] = a_node("a", 11)

    async def ask() -> None:
        behind = await stage.behind()
        assert behind == [(Node, "a")]
        await stage.lists.read(behind)
        assert stage.lists.is_unseen(Node, "a")
        stage.watch_shows(a_node("a", 11))
        assert not stage.lists.is_unseen(Node, "a")
        assert stage.lists.missed(behind) == []

    asyncio.run(ask())


def test_an_object_that_came_after_the_list_is_not_missing_in_it() -> None:
    stage = Stage(a_node("a", 1))
    stage.watch_shows(a_node("new", 12))
    assert stage.missed() == []


def test_a_watch_that_is_ahead_of_the_list_has_lost_nothing() -> None:
    stage = Stage(a_node("a", 1))
    stage.watch_shows(a_node("a", 12))
    assert stage.missed() == []


def test_lists_come_in_pages_with_the_selector_of_the_watch() -> None:
    nodes = [a_node(f"n{number}", 1) for number in range(2 * PAGE + 1)]
    stage = Stage(*nodes)
    assert stage.missed() == []
    asked = [params for path, params in stage.server.asked if path == NODES]
    assert [params.get("continue", "") for params in asked] == ["", str(PAGE), str(2 * PAGE)]
    selectors = {params.get("fieldSelector") for path, params in stage.server.asked if path == PODS}
    assert selectors == {"status.phase!=Succeeded,status.phase!=Failed"}


@pytest.mark.parametrize(
    "fault", [internal_error("busy"), ConnectionLost("cut")], ids=lambda fault: type(fault).__name__
)
def test_a_server_that_does_not_answer_is_no_difference(fault: Exception) -> None:
    stage = Stage(a_node("a", 1))
    stage.server.fault = fault
    assert stage.missed() == []


def test_an_object_that_cannot_be_read_counts_as_unseen() -> None:
    stage = Stage(a_node("a", 1))
    stage.server.fault = internal_error("busy")
    asyncio.run(stage.lists.read([(Node, "a")]))
    assert stage.lists.is_unseen(Node, "a")
    assert stage.lists.missed([(Node, "a")]) == []


def test_after_an_object_that_cannot_be_read_no_other_is_tried() -> None:
    """A server that is down would hold the check up, object by object."""
    stage = Stage(*(a_node(f"n{number}", 1) for number in range(9)))
    stage.server.fault = internal_error("busy")
    asyncio.run(stage.lists.read([(Node, f"n{number}") for number in range(9)]))
    assert len(stage.server.asked) == 1
    assert all(stage.lists.is_unseen(Node, f"n{number}") for number in range(9))


def test_of_many_objects_only_some_are_read() -> None:
    names = [f"n{number}" for number in range(MAX_READ + 2)]
    stage = Stage(*(a_node(name, 1) for name in names))
    asyncio.run(stage.lists.read([(Node, name) for name in names]))
    assert len(stage.server.asked) == MAX_READ
    assert [name for name in names if stage.lists.is_unseen(Node, name)] == names[MAX_READ:]


def test_a_pod_that_has_finished_is_gone() -> None:
    """It exists, but no watch of the scheduler shows it."""
    stage = Stage(pods=(a_pod("p", 3),))
    stage.server.objects[PODS] = [a_pod("p", 11, "Succeeded")]
    asyncio.run(stage.lists.read([(Pod, "default/p")]))
    assert [each.fresh for each in stage.lists.missed([(Pod, "default/p")])] == ["there is none"]


def test_a_difference_that_cannot_be_mended_says_why() -> None:
    stage = Stage(a_node("a", 1))
    stage.server.objects[NODES][0] = a_node("a", 11)

    async def ask() -> None:
        await stage.lists.read([(Node, "a")])
        (each,) = stage.lists.missed([(Node, "a")])
        stage.server.fault = internal_error("busy")
        with pytest.raises(ApiError, match="busy"):
            await stage.lists.mend(each)

    asyncio.run(ask())
