"""What a reflector makes of lists and watches: rules for single events, whole histories with faults, a real server."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_pod
from how_many import examples
from mooring.api.api_errors import ApiError, expired, forbidden, not_found
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import ConnectionLost, Unreadable
from mooring.apiclient.reflectors.mirror import MAX_GRAVES, Known, Mirror, is_later
from mooring.apiclient.reflectors.reflector import WATCHED, Reflector, ReflectorOptions, Reflectors
from mooring.apiclient.reflectors.watch_streams import LineDecoder, MalformedObject, advice
from mooring.apiclient.throttle import RetryBackoff, Timing
from mooring.apiserver.server.http import HttpServer
from mooring.embedded.embedded_cluster import EmbeddedCluster
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.storage import CSINode, StorageClass
from scripted_watches import Story

PODS = next(watched for watched in WATCHED if watched.plural == "pods")
CLASSES = next(watched for watched in WATCHED if watched.plural == "storageclasses")
ANY_PODS = KindSpec("", "v1", "pods", "Pod", struct=Pod)


@dataclass
class Replay:
    """Repeats what it is told, and does not take what cannot be: an object that comes twice, or goes unknown."""

    objects: dict[str, KubeObject] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    __call__ = Story.__call__

    def added(self, item: KubeObject) -> None:
        assert item.key not in self.objects
        self.objects[item.key] = item
        self.told.append(f"+{item.key}@{item.metadata.resource_version}")

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        assert self.objects[new.key] is old and old.uid == new.uid
        self.objects[new.key] = new
        self.told.append(f"~{new.key}@{new.metadata.resource_version}")

    def removed(self, item: KubeObject) -> None:
        assert self.objects.pop(item.key) is item
        self.told.append(f"-{item.key}")


def seen(name: str, version: int | str, uid: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **more}


def line(event_type: str, item: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"type": event_type, "object": item})


def bookmark(version: int, ends_list: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}, "status": {}})


def a_list(version: int, *items: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": items})


def no_trouble(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


# Which version is later


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [
        pytest.param("10", "9", True, id="versions are compared as numbers, not as text"),
        pytest.param("9", "10", False, id="a smaller number is older"),
        pytest.param("9", "9", False, id="the same is not later"),
        pytest.param("b", "c", True, id="what cannot be compared is taken in the order in which it comes"),
        pytest.param("b", "b", False, id="the same is not later, whatever it is"),
        pytest.param(None, None, True, id="without versions everything is later"),
        pytest.param("5", None, True, id="any version is later than none"),
        pytest.param(None, "5", True, id="a missing version is taken at its word"),
    ],
)
def test_versions(version: str | None, other: str | None, expected: bool) -> None:
    assert is_later(version, other) is expected


# The rules for single events; an event is (type, version, uid)

EVENTS = [
    pytest.param([("ADDED", 1, "a"), ("MODIFIED", 2, "a"), ("DELETED", 3, "a")], ["+x@1", "~x@2", "-x"], id="a life"),
    pytest.param([("ADDED", 1, "a"), ("ADDED", 1, "a")], ["+x@1"], id="the same event twice is heard once"),
    pytest.param([("ADDED", 2, "a"), ("MODIFIED", 1, "a")], ["+x@2"], id="an older form that comes late is ignored"),
    pytest.param([("ADDED", 1, "a"), ("ADDED", 2, "a")], ["+x@1", "~x@2"], id="ADDED of a known object is an update"),
    pytest.param([("MODIFIED", 2, "a")], ["+x@2"], id="MODIFIED of an unknown object is an addition"),
    pytest.param([("DELETED", 3, "a")], [], id="DELETED of an unknown object is nothing"),
    pytest.param([("DELETED", 3, "a"), ("ADDED", 2, "a")], [], id="news from before a deletion bring nothing back"),
    pytest.param(
        [("ADDED", 1, "a"), ("DELETED", 3, "a"), ("MODIFIED", 2, "a")],
        ["+x@1", "-x"],
        id="a change that comes after the deletion it preceded is ignored",
    ),
    pytest.param(
        [("DELETED", 5, "a"), ("DELETED", 3, "a"), ("ADDED", 4, "a")], [], id="the latest of two deletions counts"
    ),
    pytest.param(
        [("ADDED", 1, "a"), ("ADDED", 5, "b")], ["+x@1", "-x", "+x@5"], id="another uid is a deletion and an addition"
    ),
    pytest.param(
        [("ADDED", 5, "b"), ("DELETED", 4, "a")],
        ["+x@5"],
        id="the deletion of a predecessor that comes late is ignored",
    ),
    pytest.param(
        [("ADDED", 1, "a"), ("DELETED", 5, "b")],
        ["+x@1", "-x"],
        id="the deletion of an unseen successor frees the name",
    ),
    pytest.param(
        [("ADDED", 2, "a"), ("DELETED", 1, "a")], ["+x@2"], id="a deletion from before the addition is ignored"
    ),
    pytest.param([("ADDED", 2, "a"), ("DELETED", 2, "a")], ["+x@2", "-x"], id="a deletion may carry the known version"),
    pytest.param(
        [("ADDED", 1, "a"), ("DELETED", 2, "a"), ("ADDED", 3, "b")],
        ["+x@1", "-x", "+x@3"],
        id="a name that is free can be taken again",
    ),
]


@pytest.mark.parametrize(("events", "told"), EVENTS)
def test_rules_for_events(events: list[tuple[str, int, str]], told: list[str]) -> None:
    replay = Replay()
    mirror = Mirror(ANY_PODS, replay, no_trouble)
    for event_type, version, uid in events:
        mirror.take(line(event_type, seen("x", version, uid)))
    assert replay.told == told
    assert mirror.known.objects == replay.objects


def test_what_was_not_on_a_list_is_not_brought_back_by_older_news() -> None:
    replay = Replay()
    mirror = a_synced_mirror(replay, 10)
    mirror.take(line("ADDED", seen("x", 9)))
    assert replay.told == [] and mirror.statistics.ignored == 1
    mirror.take(line("ADDED", seen("x", 11)))
    assert replay.told == ["+x@11"]


def test_only_so_many_deletions_are_remembered() -> None:
    known: Known[Pod] = Known()
    for version in range(MAX_GRAVES + 10):
        known.take("DELETED", a_pod(f"p{version}", metadata={"resourceVersion": str(version + 1)}))
    late = {
        n: known.take("ADDED", a_pod(f"p{n}", metadata={"resourceVersion": "1"})) for n in range(0, MAX_GRAVES + 10, 5)
    }
    assert [n for n, change in late.items() if change is not None] == [0, 5], "the ten oldest are forgotten"


# Lists


def a_synced_mirror(replay: Replay, version: int, *items: Mapping[str, Any], report: Any = no_trouble) -> Mirror:
    mirror = Mirror(ANY_PODS, replay, report)
    relist(mirror, version, *items)
    replay.told.clear()
    return mirror


def relist(mirror: Mirror, version: int, *items: Mapping[str, Any], not_older_than: str = "") -> None:
    mirror.begin_list()
    found = mirror.take_page(a_list(version, *items))
    for _ in mirror.complete(found, not_older_than):
        pass


def test_a_list_tells_what_no_watch_has_told() -> None:
    replay = Replay()
    mirror = a_synced_mirror(replay, 9, seen("gone", 1), seen("same", 2), seen("new-form", 3), seen("replaced", 4))
    same = mirror.known.objects["same"]
    relist(mirror, 20, seen("same", 2), seen("new-form", 11), seen("replaced", 12, "other"), seen("new", 13))
    assert replay.told == ["-gone", "~new-form@11", "-replaced", "+replaced@12", "+new@13"]
    assert mirror.known.objects["same"] is same
    assert mirror.version == "20" and mirror.statistics.relists == 1


def test_a_list_of_restored_data_counts_though_its_versions_go_back() -> None:
    replay = Replay()
    mirror = a_synced_mirror(replay, 100, seen("x", 90))
    relist(mirror, 50, seen("x", 40))
    assert replay.told == ["~x@40"]
    mirror.take(line("MODIFIED", seen("x", 51)))
    assert replay.told == ["~x@40", "~x@51"] and mirror.version == "51"


def test_a_list_that_is_older_than_asked_for_is_refused() -> None:
    replay = Replay()
    mirror = a_synced_mirror(replay, 100, seen("x", 90))
    with pytest.raises(ApiError) as refusal:
        relist(mirror, 50, not_older_than="100")
    assert refusal.value.code == 410
    assert str(refusal.value) == "the list has version 50, older than 100, which this client has seen"
    assert replay.told == [] and mirror.is_listing


@pytest.mark.parametrize("answer", [b"{}", b'{"kind":"Pod"}', b"[]", b"not JSON", b'{"kind":"PodList","items":7}'])
def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(answer: bytes) -> None:
    mirror = a_synced_mirror(Replay(), 9, seen("x", 1))
    mirror.begin_list()
    with pytest.raises(Unreadable):
        mirror.take_page(answer)


# What cannot be read


def test_objects_that_cannot_be_read_are_reported_once_and_stay_as_they_were() -> None:
    replay, reports = Replay(), list[str]()
    mirror = a_synced_mirror(replay, 9, seen("x", 1), report=lambda text, fault: reports.append(text))
    broken = seen("x", 10, spec={"containers": [{"resources": 7}]})
    mirror.take(line("MODIFIED", broken))
    mirror.take(line("MODIFIED", {**broken, "metadata": {**broken["metadata"], "resourceVersion": "11"}}))
    relist(mirror, 12, broken)
    assert reports == [
        "pods x: skipped, because it cannot be decoded: spec.containers[0].resources: Invalid value: 7: must be an object"
    ]
    assert replay.told == [] and "x" in mirror.known.objects
    assert mirror.statistics.malformed == 3 and not mirror.is_in_doubt
    mirror.take(line("MODIFIED", seen("x", 13)))
    mirror.take(line("DELETED", {**broken, "metadata": {**broken["metadata"], "resourceVersion": "14"}}))
    assert replay.told == ["~x@13", "-x"], "of a deletion nothing but the metadata is read"


def test_an_unreadable_line_is_skipped_and_leaves_a_doubt() -> None:
    replay, reports = Replay(), list[str]()
    mirror = a_synced_mirror(replay, 9, report=lambda text, fault: reports.append(text))
    for bad in (
        b'{"type":"ADDED","obj',
        b"\xff\xfe",
        b"[]",
        line("ADDED", {"kind": "Pod"}),
        line("WINK", seen("x", 10)),
    ):
        mirror.take(bad)
    mirror.take(line("ADDED", seen("y", 11)))
    assert replay.told == ["+y@11"]
    assert mirror.statistics.malformed == 5 and mirror.is_in_doubt
    assert len(reports) == 1 and reports[0].startswith(
        "pods: skipped, because it cannot be decoded: a line of the watch"
    )


def test_a_deeply_nested_line_is_no_danger() -> None:
    mirror = a_synced_mirror(Replay(), 9, report=lambda text, fault: None)
    mirror.take(b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":' + b"[" * 100_000)
    assert mirror.statistics.malformed == 1


def test_null_means_the_same_as_leaving_out() -> None:
    item = LineDecoder(CSINode).event(line("ADDED", {"metadata": {"name": "n"}, "spec": {"drivers": None}})).object
    assert isinstance(item, CSINode) and item.name == "n"


def test_labels_of_a_wrong_type_do_not_hide_whose_they_are() -> None:
    broken = seen("x", 10)
    broken["metadata"]["labels"] = 7
    with pytest.raises(MalformedObject) as fault:
        LineDecoder(Pod).event(line("ADDED", broken))
    assert fault.value.key == "x"


def test_events_out_of_order_leave_a_doubt() -> None:
    replay = Replay()
    mirror = a_synced_mirror(replay, 9)
    mirror.take(line("ADDED", seen("y", 12)))
    assert not mirror.is_in_doubt
    mirror.take(line("ADDED", seen("x", 11)))
    assert replay.told == ["+y@12", "+x@11"]
    assert mirror.is_in_doubt and mirror.version == "12"


@pytest.mark.parametrize("struct", [Pod, StorageClass])
def test_an_error_event_is_an_error_whatever_the_kind(struct: type[KubeObject]) -> None:
    with pytest.raises(ApiError) as refusal:
        LineDecoder(struct).event(line("ERROR", expired("too old resource version: 1 (213)").status()))
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")


def test_an_error_event_that_says_nothing_is_an_internal_one() -> None:
    with pytest.raises(ApiError) as refusal:
        LineDecoder(StorageClass).event(b'{"type":"ERROR","object":7}')
    assert refusal.value.code == 500


def test_a_listener_that_fails_does_not_stop_the_others_changes() -> None:
    class Fussy(Replay):
        def added(self, item: KubeObject) -> None:
            if item.name == "x":
                raise ValueError("I do not like it")
            super().added(item)

    replay, reports = Fussy(), list[tuple[str, Exception | None]]()
    mirror = Mirror(ANY_PODS, replay, lambda text, fault: reports.append((text, fault)))
    relist(mirror, 9, seen("x", 1), seen("y", 2))
    assert replay.told == ["+y@2"]
    [(text, fault)] = reports
    assert text == "pods x: the scheduler could not process a change" and isinstance(fault, ValueError)


# What is watched, and what is said where it is not served


def test_the_eighteen_resources_of_kube_scheduler() -> None:
    served = {f"{resource.path}/{resource.plural}": resource.kind for resource in RESOURCES.values()}
    assert len(WATCHED) == 18
    assert {watched.url(): watched.struct.__name__ for watched in WATCHED}.items() <= served.items()
    assert [watched.resource for watched in WATCHED if watched.watch and watched.watch.is_required] == ["nodes", "pods"]
    assert [watched.plural for watched in WATCHED if watched.watch and watched.watch.field_selector] == ["pods"]


def test_what_is_said_of_a_resource_that_is_forbidden() -> None:
    refusal = forbidden("storageclasses", "", 'User "x" cannot watch resource "storageclasses"', "storage.k8s.io")
    assert advice(CLASSES, refusal) == (
        "Failed to watch storageclasses.storage.k8s.io: storageclasses.storage.k8s.io is forbidden: "
        'User "x" cannot watch resource "storageclasses" (403). Until that changes, the scheduler continues as if there '
        "were none, and asks again from time to time. Add this rule to the ClusterRole of the scheduler: "
        '{apiGroups: ["storage.k8s.io"], resources: ["storageclasses"], verbs: ["get", "list", "watch"]}'
    )


def test_what_is_said_of_a_resource_that_is_not_served() -> None:
    missing = ApiError(404, "NotFound", "the server could not find the requested resource")
    assert advice(PODS, missing) == (
        "Failed to watch pods: the server could not find the requested resource (404). The scheduler cannot schedule "
        "without it. Check that the server's address is that of a Kubernetes API server."
    )
    assert advice(CLASSES, missing).endswith(
        "The server does not serve storage.k8s.io/v1: "
        "kubectl api-resources --api-group=storage.k8s.io shows what it does serve."
    )


def test_pauses_double_up_to_half_a_minute_and_start_over_after_two_quiet_ones() -> None:
    now_s = [0.0]
    pace = RetryBackoff(Timing(lambda: now_s[0]), lambda: 0.0)
    assert [pace.wait_s() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert pace.failures() == 8
    now_s[0] += 30 + 120
    assert pace.wait_s() == 30.0
    now_s[0] += 30 + 121
    assert pace.failures() == 0 and pace.wait_s() == 0.8
    assert RetryBackoff(Timing(lambda: 0.0), lambda: 0.5).wait_s() == pytest.approx(1.2)


# Histories with faults: whatever happens on the way, in the end both sides agree


class Flawed:
    """A server of pods that keeps its promises only in the end: it sends twice, out of order, garbage, or nothing."""

    def __init__(self, draw: random.Random, faults: int) -> None:
        self._draw = draw
        self.faults_left = faults
        self._version = 1
        self._compacted = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self.news = asyncio.Event()

    def live(self, changes: int) -> None:
        """Objects come, change, go, and are replaced."""
        for _ in range(changes):
            name = self._draw.choice("abcde")
            old = self.objects.get(name)
            self._version += self._draw.choice((1, 1, 7))
            if old is None:
                self._write("ADDED", seen(name, self._version, f"{name}-{self._version}"))
            elif self._draw.random() < 0.4:
                self._write("DELETED", seen(name, self._version, old["metadata"]["uid"]))
            else:
                self._write("MODIFIED", seen(name, self._version, old["metadata"]["uid"]))
        self.news.set()

    def _write(self, event_type: str, item: dict[str, Any]) -> None:
        name = item["metadata"]["name"]
        if event_type == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = item
        self._history.append((self._version, event_type, item))

    def _fault(self) -> str:
        self.live(self._draw.randrange(3))
        if not self.faults_left:
            return ""
        self.faults_left -= 1
        if self._draw.random() < 0.3:
            self._compacted = self._version
            self.live(self._draw.randrange(3))
        return self._draw.choice(("", "refuse", "lose", "gone", "garbage", "late", "twice", "end"))

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        self._maybe_refuse(self._fault())
        items = list(self.objects.values())
        middle = self._draw.randrange(len(items) + 1)
        return [a_list(self._version, *items[:middle]), a_list(self._version, *items[middle:])]

    def _maybe_refuse(self, fault: str) -> None:
        if fault == "refuse":
            raise ApiError(self._draw.choice((400, 403, 404, 422, 429, 500, 503)), "", "no")
        if fault == "gone":
            raise expired("too old")

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        params = params or {}
        fault = self._fault()
        self._maybe_refuse(fault)
        if params.get("sendInitialEvents"):
            at = self._version
            yield [line("ADDED", item) for item in self.objects.values()]
            self.live(self._draw.randrange(2))
            if fault == "lose":
                raise ConnectionLost("lost")
            yield [bookmark(at, ends_list=True)]
        else:
            at = int(params.get("resourceVersion", "0"))
        while True:
            if at < self._compacted:
                yield [line("ERROR", expired("too old resource version").status())]
                return
            written = [event for event in self._history if event[0] > at]
            upto = self._draw.randrange(len(written) + 1) if fault and written else len(written)
            at = written[upto - 1][0] if upto else at
            if lines := self._distorted([line(kind, item) for _, kind, item in written[:upto]], fault):
                yield lines
            if fault:
                if fault == "lose":
                    raise ConnectionLost("lost")
                return
            yield [bookmark(max(at, self._version))]
            at = self._version
            self.news.clear()
            await self.news.wait()

    def _distorted(self, lines: list[bytes], fault: str) -> list[bytes]:
        if fault == "late":
            self._draw.shuffle(lines)
        elif fault == "twice":
            lines = lines + self._draw.sample(lines, len(lines) // 2)
        elif fault == "garbage" and lines:
            lines[self._draw.randrange(len(lines))] = b'{"type":"MODI'
        return lines


class Forward(Replay):
    """Takes no step back: neither an older form of an object, nor one that is gone."""

    def __init__(self) -> None:
        super().__init__()
        self._latest: dict[str, int] = {}
        self._gone: set[str] = set()

    def added(self, item: KubeObject) -> None:
        self._step(item)
        super().added(item)

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        self._step(new)
        super().updated(old, new)

    def removed(self, item: KubeObject) -> None:
        self._gone.add(item.uid)
        super().removed(item)

    def _step(self, item: KubeObject) -> None:
        version = int(item.metadata.resource_version or "")
        assert version > self._latest.get(item.key, 0) and item.uid not in self._gone
        self._latest[item.key] = version


def versions(objects: Mapping[str, KubeObject]) -> dict[str, tuple[str, str | None]]:
    return {key: (item.uid, item.metadata.resource_version) for key, item in objects.items()}


async def _at_once(for_s: float) -> None:
    if for_s > 100:
        await asyncio.Event().wait()
    await asyncio.sleep(0)


@settings(max_examples=examples(300), deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 25))
def test_in_the_end_both_sides_agree_and_the_changes_replay_to_the_same(seed: int, faults: int) -> None:
    async def main() -> None:
        draw = random.Random(seed)
        server, replay = Flawed(draw, faults), Forward()
        server.live(draw.randrange(10))
        reflector_options = ReflectorOptions(Timing(lambda: 0.0, _at_once), draw.random, report=only_told)
        reflector = Reflector(server, ANY_PODS, replay, reflector_options)
        task = asyncio.create_task(reflector.run())
        for _ in range(5000):
            await asyncio.sleep(0)
            expected = {n: (o["metadata"]["uid"], o["metadata"]["resourceVersion"]) for n, o in server.objects.items()}
            if not server.faults_left and versions(reflector.objects) == expected:
                break
        assert versions(reflector.objects) == expected
        assert versions(replay.objects) == expected
        assert reflector.has_synced
        server.live(4)
        for _ in range(50):
            await asyncio.sleep(0)
        assert versions(replay.objects).keys() == server.objects.keys()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(main())


def only_told(text: str, fault: Exception | None) -> None:
    assert fault is None, text


# Against the server of our own


def a_pod_manifest(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x"}], **spec},
    }


async def until(holds: Any) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.002)


def test_all_resources_of_our_own_server_are_followed() -> None:
    async def main() -> None:
        cluster = EmbeddedCluster()
        pods = "/api/v1/namespaces/default/pods"
        server, replay = HttpServer(cluster.api), Replay()
        port = await server.start("127.0.0.1", 0)
        async with ApiClient(ConnectionSettings(f"http://127.0.0.1:{port}"), "test/1", -1) as client:
            await client.post(pods, a_pod_manifest("first", nodeName="n1"))
            reflectors = Reflectors(client, replay, reflector_options=ReflectorOptions(report=no_trouble))
            assert len(reflectors.waited_for()) == 18
            task = asyncio.create_task(reflectors.run())
            await asyncio.wait_for(reflectors.settle(), 5)
            assert reflectors.is_settled and not reflectors.unwatched() and not reflectors.waited_for()
            assert "default" in replay.objects and "default/first" in replay.objects
            await client.post(pods, a_pod_manifest("second"))
            await until(lambda: "default/second" in replay.objects)
            finished = {"status": {"phase": "Succeeded"}}
            await client.patch(f"{pods}/first/status", finished)
            await until(lambda: "default/first" not in replay.objects)
            await client.delete(f"{pods}/second")
            await until(lambda: "default/second" not in replay.objects)
            assert all(member.statistics.lists == 1 for member in reflectors.members)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
        await server.stop()
        cluster.close()

    asyncio.run(main())


def test_a_resource_may_be_missing_but_for_nodes_and_pods() -> None:
    class Poor:
        """Serves empty lists of nodes and pods, and nothing else."""

        async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
            raise AssertionError("a server that does not serve a watch need not be asked for a list")

        async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
            if path not in ("/api/v1/nodes", "/api/v1/pods"):
                raise not_found("x", "y")
            yield [bookmark(1, ends_list=True)]
            await asyncio.Event().wait()

    async def main() -> None:
        slept, reports = list[float](), list[str]()

        async def sleep(for_s: float) -> None:
            slept.append(for_s)
            await (asyncio.sleep(0) if len(slept) < 200 else asyncio.Event().wait())

        timing = Timing(lambda: 0.0, sleep)
        reflector_options = ReflectorOptions(timing, report=lambda text, fault: reports.append(text), silence_s=1e9)
        reflectors = Reflectors(Poor(), Replay(), reflector_options=reflector_options)
        task = asyncio.create_task(reflectors.run())
        await asyncio.wait_for(reflectors.settle(), 5)
        while len(slept) < 200:
            await asyncio.sleep(0)
        assert len(reports) == len(reflectors.unwatched()) == 16, "each is reported once, however often it is tried"
        assert {for_s for for_s in slept if for_s < 1e9} == {60.0}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_metadata_survives_in_an_event_of_parts() -> None:
    event = LineDecoder(Pod).event(bookmark(7, ends_list=True))
    assert event.ends_initial_list and event.object.metadata == ObjectMeta(
        resource_version="7", annotations={"k8s.io/initial-events-end": "true"}
    )
