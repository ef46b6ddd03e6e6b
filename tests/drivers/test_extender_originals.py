"""Extenders see whole objects: those of the embedded store, and those that a server's watches tell."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from extending import a_config
from mooring.drivers.embedded_driver import whole_in_store
from mooring.drivers.extender_calls import Originals, encoded, shown
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from virtual_cluster import VirtualCluster

WRITTEN: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "pod", "namespace": "default", "uid": "u1", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}], "dnsPolicy": "Default"},
}
NODE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "uid": "u2", "managedFields": [{"manager": "kubelet"}]},
    "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}},
}
POD = a_pod("pod", metadata={"uid": "u1"})


def body_of(item: KubeObject, whole: Any) -> Any:
    return json.loads(encoded(Call(Extender(), "filter", {"Pod": item, "NodeNames": None}), whole))["Pod"]


class Source:
    """A server that tells these lines, and lists these pages."""

    def __init__(self, lines: Mapping[str, list[bytes]], pages: Mapping[str, list[bytes]]) -> None:
        self.lines, self.pages = lines, pages

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        return self.pages[path]

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        yield self.lines[path]


def line(kind: str, item: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item})


def heard(*lines: bytes, path: str = "/api/v1/pods", streamed: bool = False) -> Originals:
    originals = Originals(Source({path: list(lines)}, {}))
    return heard_more(originals, path, streamed)


def heard_more(originals: Originals, path: str, streamed: bool = False) -> Originals:
    async def run() -> None:
        params = {"sendInitialEvents": "true"} if streamed else {}
        async for _ in originals.watch(path, params):
            pass

    asyncio.run(run())
    return originals


def test_kind_and_managed_fields_go_from_pods_and_stay_in_nodes() -> None:
    pod = shown(WRITTEN, is_pod=True)
    assert list(pod) == ["metadata", "spec"] and "managedFields" not in pod["metadata"]
    assert "managedFields" in WRITTEN["metadata"], "the original is left as it was"
    node = shown(NODE, is_pod=False)
    assert list(node) == ["metadata", "status"] and node["metadata"]["managedFields"] == [{"manager": "kubelet"}]


def test_a_pod_is_sent_as_the_watch_told_it() -> None:
    sent = body_of(POD, heard(line("ADDED", WRITTEN)).whole)
    assert sent == shown(WRITTEN, is_pod=True)
    assert sent["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_a_node_is_sent_as_a_list_told_it() -> None:
    page = msgspec.json.encode({"kind": "NodeList", "items": [NODE]})
    originals = Originals(Source({}, {"/api/v1/nodes": [page]}))
    assert asyncio.run(originals.list_pages("/api/v1/nodes")) == [page]
    node = a_node("n1")
    node.metadata.uid = "u2"
    assert body_of(node, originals.whole) == shown(NODE, is_pod=False)


def test_every_node_of_a_list_is_sent_whole() -> None:
    originals = heard(line("ADDED", NODE), path="/api/v1/nodes")
    known, unknown = a_node("n1"), a_node("n2")
    known.metadata.uid = "u2"
    call = Call(Extender(), "filter", {"Nodes": {"items": [known, unknown]}})
    first, second = json.loads(encoded(call, originals.whole))["Nodes"]["items"]
    assert first == shown(NODE, is_pod=False)
    assert second["metadata"]["name"] == "n2" and "nodeInfo" not in second["status"]


def test_other_kinds_pass_through_and_are_not_kept() -> None:
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "default", "uid": "u3"}}
    path, told, page = "/api/v1/services", line("ADDED", service), msgspec.json.encode({"items": [service]})
    originals = Originals(Source({path: [told]}, {path: [page]}))

    async def run() -> list[list[bytes]]:
        params = {"sendInitialEvents": "true"}
        return [await originals.list_pages(path), *[lines async for lines in originals.watch(path, params)]]

    assert asyncio.run(run()) == [[page], [told]]
    assert len(originals) == 0


def test_a_page_that_cannot_be_read_is_passed_on() -> None:
    path, pages = "/api/v1/pods", [b"{", b'{"items":null}', msgspec.json.encode({"items": [WRITTEN]})]
    originals = Originals(Source({}, {path: pages}))
    assert asyncio.run(originals.list_pages(path)) == pages
    assert "dnsPolicy" in body_of(POD, originals.whole)["spec"]


def test_what_nobody_told_is_sent_as_far_as_it_is_known() -> None:
    assert body_of(POD, heard().whole)["metadata"] == {"name": "pod", "namespace": "default", "uid": "u1", "labels": {}}
    deleted = heard(line("ADDED", WRITTEN), line("DELETED", WRITTEN))
    assert "dnsPolicy" not in body_of(POD, deleted.whole)["spec"]
    another = heard(line("ADDED", {**WRITTEN, "metadata": {**WRITTEN["metadata"], "uid": "other"}}))
    assert "dnsPolicy" not in body_of(POD, another.whole)["spec"], "a pod of the same name is another pod"


def test_what_cannot_be_read_is_let_through() -> None:
    originals = heard(b"{", line("ADDED", WRITTEN), line("BOOKMARK", {"metadata": None}), b"[]")
    assert "dnsPolicy" in body_of(POD, originals.whole)["spec"]


@pytest.mark.parametrize("metadata", [None, "x", [], {}])
def test_an_object_without_names_is_kept_under_none(metadata: Any) -> None:
    originals = heard(line("ADDED", {"metadata": metadata, "spec": {}}), line("ADDED", WRITTEN))
    assert body_of(Pod(metadata=ObjectMeta(namespace="")), originals.whole)["spec"] == {}
    assert body_of(POD, originals.whole) == shown(WRITTEN, is_pod=True)


def test_a_new_list_forgets_what_is_not_in_it() -> None:
    told: dict[str, list[bytes]] = {"/api/v1/pods": [line("ADDED", WRITTEN)]}
    originals = heard_more(Originals(Source(told, {})), "/api/v1/pods")
    told["/api/v1/pods"] = []
    for streamed in (False, True):
        heard_more(originals, "/api/v1/pods", streamed)
        assert "dnsPolicy" in body_of(POD, originals.whole)["spec"], "a list counts when it is whole"
    told["/api/v1/pods"] = [line("BOOKMARK", {"metadata": {"name": ""}})]
    assert "dnsPolicy" in body_of(POD, heard_more(originals, "/api/v1/pods").whole)["spec"]
    assert "dnsPolicy" not in body_of(POD, heard_more(originals, "/api/v1/pods", streamed=True).whole)["spec"]


def test_a_streamed_list_is_kept_with_what_follows_it() -> None:
    gone = {**WRITTEN, "metadata": {**WRITTEN["metadata"], "name": "gone", "uid": "u9"}}
    end = line("BOOKMARK", {"metadata": {"resourceVersion": "5"}})
    originals = heard(line("ADDED", gone), end, line("ADDED", WRITTEN), line("DELETED", gone), streamed=True)
    assert "dnsPolicy" in body_of(POD, originals.whole)["spec"]
    assert len(originals) == 1


def test_objects_of_the_store_are_sent_whole() -> None:
    cluster = VirtualCluster(EmbeddedSettings(a_config({"bindVerb": "bind"})))
    cluster.node("n1")
    written = cluster.pod("pod", schedulerName="somebody-else", hostname="web")
    sent = body_of(a_pod("pod", metadata={"uid": written["metadata"]["uid"]}), whole_in_store(cluster.api))
    assert sent["spec"]["hostname"] == "web" and sent["metadata"]["uid"] == written["metadata"]["uid"]
    assert "kind" not in sent and "apiVersion" not in sent
    stale = a_pod("pod", metadata={"uid": "stale"})
    assert body_of(stale, whole_in_store(cluster.api))["metadata"]["uid"] == "stale"
