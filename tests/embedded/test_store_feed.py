"""What a scheduler is told of the store: the same as a watch of unfinished pods, and of all else, would tell it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from asking import MERGE_PATCH, NODES, PODS, a_manifest, ask
from cluster_api import an_api
from mooring.apiserver.resource_api import ResourceApi
from mooring.drivers.embedded_driver import StoreFeed
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated


class Listener:
    """Instead of a scheduler: writes down its inputs, and holds what it believes there is."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.held: dict[tuple[str, str], KubeObject] = {}

    def handle(self, input: Input) -> None:
        match input:
            case ObjectAdded(item):
                assert _place(item) not in self.held
                self._take("added", item)
            case ObjectUpdated(old, new):
                assert self.held[_place(old)] is old
                assert old.uid == new.uid
                self._take("updated", new)
            case ObjectRemoved(item):
                assert self.held.pop(_place(item)) is item
                self.told.append(("removed", item.name))
            case _:
                raise AssertionError(input)

    def _take(self, what: str, item: KubeObject) -> None:
        self.held[_place(item)] = item
        self.told.append((what, item.name))

    def take(self) -> list[tuple[str, str]]:
        told, self.told = self.told, []
        return told


def _place(item: KubeObject) -> tuple[str, str]:
    return type(item).__name__, f"{item.namespace}/{item.name}"


def a_feed(api: ResourceApi, takes_pending: bool = True) -> tuple[Listener, list[str]]:
    listener, reports = Listener(), []
    scheduler: Any = listener
    StoreFeed(api.store, scheduler, lambda text, fault: reports.append(text), takes_pending)
    return listener, reports


def test_what_is_there_is_told_first_and_nodes_before_pods() -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest("p"))
    ask(api, "POST", NODES, {"metadata": {"name": "n"}})
    listener, _ = a_feed(api)
    told = listener.take()
    assert told.index(("added", "n")) < told.index(("added", "p"))
    assert ("added", "default") in told


def test_the_life_of_a_pod() -> None:
    api = an_api()
    listener, reports = a_feed(api)
    listener.take()
    ask(api, "POST", PODS, a_manifest())
    ask(api, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    ask(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE_PATCH)
    assert listener.take() == [("added", "p"), ("updated", "p"), ("updated", "p")]
    ask(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, MERGE_PATCH)
    assert listener.take() == [("removed", "p")], "finished is gone"
    ask(api, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "c"}}}, MERGE_PATCH)
    ask(api, "DELETE", f"{PODS}/p")
    assert (listener.take(), reports) == ([], [])


def test_kinds_that_no_scheduler_watches_are_not_told() -> None:
    api = an_api()
    listener, _ = a_feed(api)
    listener.take()
    ask(api, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    ask(api, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "c"}, "value": 1})
    assert listener.take() == []


def test_what_cannot_be_read_is_reported_and_the_last_good_state_stays() -> None:
    api = an_api()
    listener, reports = a_feed(api)
    ask(api, "POST", PODS, a_manifest())
    listener.take()
    held = api.store.get("/pods", ("default", "p"))
    api.store.update("/pods", ("default", "p"), {**held, "spec": {"containers": "none"}})
    assert (listener.take(), reports) == ([], ["/pods default/p cannot be read"])
    api.store.update("/pods", ("default", "p"), held)
    assert listener.take() == [("updated", "p")]
    api.store.update("/pods", ("default", "p"), {**held, "spec": {"containers": "none"}})
    api.store.delete("/pods", ("default", "p"))
    assert listener.take() == [("removed", "p")]


def test_a_pod_whose_spec_stays_keeps_what_was_worked_out_of_it() -> None:
    """But only what the labels and the status do not change."""
    api = an_api()
    listener, _ = a_feed(api)
    ask(api, "POST", PODS, a_manifest())
    first = listener.held["Pod", "default/p"]
    assert isinstance(first, Pod)
    shape, label_set = first.shape, first.label_set
    ask(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE_PATCH)
    second = listener.held["Pod", "default/p"]
    assert isinstance(second, Pod)
    assert second is not first
    assert (second.shape, second.label_set) == (shape, label_set)
    assert second.shape is shape
    ask(api, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"app": "a"}}}, MERGE_PATCH)
    third = listener.held["Pod", "default/p"]
    assert isinstance(third, Pod)
    assert third.metadata.labels == {"app": "a"}


STEPS = st.tuples(
    st.sampled_from(["create", "label", "finish", "bind", "delete", "node"]), st.sampled_from("abc"), st.integers(0, 2)
)


@given(st.lists(STEPS, max_size=30))
def test_the_scheduler_believes_what_is_true(steps: list[tuple[str, str, int]]) -> None:
    api = an_api()
    listener, reports = a_feed(api)
    for what, name, number in steps:
        _do(api, what, name, number)
        pods = {item["metadata"]["name"]: item for item in api.store.all("/pods") if not _is_finished(item)}
        believed = {pod.name: pod for (kind, _), pod in listener.held.items() if kind == "Pod"}
        assert believed.keys() == pods.keys()
        for key, pod in believed.items():
            assert isinstance(pod, Pod)
            assert pod.metadata.resource_version == pods[key]["metadata"]["resourceVersion"]
            assert pod.spec.node_name == pods[key]["spec"].get("nodeName", "")
            assert (pod.metadata.labels or {}) == pods[key]["metadata"].get("labels", {})
    assert not reports


def _do(api: ResourceApi, what: str, name: str, number: int) -> None:
    """Some of it is refused, which is fine."""
    path = f"{PODS}/{name}"
    match what:
        case "create":
            ask(api, "POST", PODS, a_manifest(name))
        case "label":
            ask(api, "PATCH", path, {"metadata": {"labels": {"n": str(number)}}}, MERGE_PATCH)
        case "finish":
            ask(api, "PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, MERGE_PATCH)
        case "bind":
            ask(api, "POST", f"{path}/binding", {"metadata": {"name": name}, "target": {"name": f"n{number}"}})
        case "delete":
            ask(api, "DELETE", path, {"gracePeriodSeconds": 0})
        case "node":
            ask(api, "POST", NODES, {"metadata": {"name": name}})


def _is_finished(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def test_a_scheduler_that_does_not_schedule_is_fed_only_pods_with_a_node() -> None:
    api = an_api()
    ask(api, "POST", NODES, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
    ask(api, "POST", PODS, a_manifest(name="before"))
    listener, _ = a_feed(api, takes_pending=False)
    ask(api, "POST", PODS, a_manifest(name="later"))
    assert [name for _, name in listener.take() if name in ("before", "later")] == []
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "later"}, "target": {"name": "n"}}
    ask(api, "POST", f"{PODS}/later/binding", binding)
    assert listener.take() == [("added", "later")]
    ask(api, "DELETE", f"{PODS}/later", gracePeriodSeconds=0)
    ask(api, "DELETE", f"{PODS}/before", gracePeriodSeconds=0)
    assert listener.take()[-1:] == [("removed", "later")]
