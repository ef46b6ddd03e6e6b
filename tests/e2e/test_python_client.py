"""The official Python client against the embedded server: what its users do works, word for word."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from mooring.apiserver.store import HISTORY
from running_cluster import Neighbour, a_neighbour

# The types of the package leave out much of what it does.
client: Any = import_module("kubernetes.client")
watch: Any = import_module("kubernetes.watch")
config: Any = import_module("kubernetes.config")

FOREIGN = "somebody-else"
SECONDS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Neighbour]:
    with a_neighbour(nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def reach(cluster: Neighbour) -> Iterator[Any]:
    """The client as a kubeconfig makes it: over TLS, with a token."""
    with config.new_client_from_config(str(cluster.kubeconfig)) as made:
        yield made


@pytest.fixture
def core(reach: Any) -> Any:
    return client.CoreV1Api(reach)


@pytest.fixture
def namespace(core: Any, request: pytest.FixtureRequest) -> str:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    return str(name)


def a_pod(name: str, scheduler: str = FOREIGN, **labels: str) -> Any:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels or None),
        spec=client.V1PodSpec(
            scheduler_name=scheduler, containers=[client.V1Container(name="main", image="registry.example/app:1")]
        ),
    )


def follow(read: Any, *arguments: Any, until: Any, **options: Any) -> list[tuple[str, Any]]:
    """The events of a watch up to the one that is wanted."""
    stream, seen = watch.Watch(), []
    for event in stream.stream(read, *arguments, timeout_seconds=SECONDS, **options):
        seen.append((event["type"], event["object"]))
        if until(event["type"], event["object"]):
            stream.stop()
            return seen
    raise AssertionError(f"that never came; there were {[(type, item.metadata.name) for type, item in seen]}")


def test_nodes_are_listed_as_objects(core: Any) -> None:
    nodes = core.list_node()
    assert [node.metadata.name for node in nodes.items] == ["node-0001", "node-0002"]
    assert nodes.items[0].status.capacity["cpu"] == "8"
    assert nodes.items[0].metadata.creation_timestamp.tzinfo is not None


def test_lists_come_in_pages(core: Any, namespace: str) -> None:
    for name in "abcde":
        core.create_namespaced_pod(namespace, a_pod(name))
    seen, token = [], None
    while True:
        page = core.list_namespaced_pod(namespace, limit=2, _continue=token)
        seen += [pod.metadata.name for pod in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert seen == ["a", "b", "c", "d", "e"]


def test_a_watch_goes_on_from_a_version(core: Any, namespace: str) -> None:
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    core.create_namespaced_pod(namespace, a_pod("a"))
    core.create_namespaced_pod(namespace, a_pod("b"))
    first = follow(
        core.list_namespaced_pod, namespace, until=lambda type, pod: pod.metadata.name == "a", resource_version=version
    )
    assert [(type, pod.metadata.name) for type, pod in first] == [("ADDED", "a")]
    core.delete_namespaced_pod("a", namespace)
    reached = first[-1][1].metadata.resource_version
    rest = follow(
        core.list_namespaced_pod, namespace, until=lambda type, pod: type == "DELETED", resource_version=reached
    )
    assert (rest[0][0], rest[0][1].metadata.name) == ("ADDED", "b")
    assert (rest[-1][0], rest[-1][1].metadata.name) == ("DELETED", "a")


def test_a_watch_from_a_forgotten_version_begins_again(cluster: Neighbour, core: Any, namespace: str) -> None:
    """The client starts again from the beginning by itself when it is told 410, as an event within a 200."""

    def remember(writes: int) -> None:
        def limit(embedded: Any) -> None:
            embedded.api.store.history_limit = writes

        cluster.within(limit)

    remember(0)
    core.create_namespaced_pod(namespace, a_pod("a"))
    remember(HISTORY)
    stream = watch.Watch()
    with pytest.raises(client.ApiException) as refused:
        for event in stream.stream(core.list_namespaced_pod, namespace, resource_version="1", timeout_seconds=SECONDS):
            raise AssertionError(f"the past was told: {event}")
    assert refused.value.status == 410
    seen = follow(core.list_namespaced_pod, namespace, until=lambda type, pod: True)
    assert [(type, pod.metadata.name) for type, pod in seen] == [("ADDED", "a")]


def test_patches_of_both_kinds(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, a_pod("p", app="a"))
    merged = core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"color": "red"}}})
    assert merged.metadata.labels == {"app": "a", "color": "red"}
    changed = core.patch_namespaced_pod(
        "p", namespace, [{"op": "replace", "path": "/metadata/labels/color", "value": "blue"}]
    )
    assert changed.metadata.labels == {"app": "a", "color": "blue"}
    container = {"name": "main", "image": "registry.example/app:2"}
    strategic = core.patch_namespaced_pod("p", namespace, {"spec": {"containers": [container]}})
    assert [c.image for c in strategic.spec.containers] == ["registry.example/app:2"]
    cordoned = core.patch_node("node-0002", {"spec": {"unschedulable": True}})
    assert cordoned.spec.unschedulable
    assert core.patch_node("node-0002", {"spec": {"unschedulable": None}}).spec.unschedulable is None


def test_a_scheduler_of_ones_own(core: Any, namespace: str) -> None:
    pod = core.create_namespaced_pod(namespace, a_pod("p"))
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="p", uid=pod.metadata.uid),
        target=client.V1ObjectReference(kind="Node", api_version="v1", name="node-0001"),
    )
    response = core.create_namespaced_binding(namespace, binding, _preload_content=False)
    assert response.status == 201
    assert core.read_namespaced_pod("p", namespace).spec.node_name == "node-0001"
    with pytest.raises(client.ApiException) as refused:
        core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_a_stale_replacement_is_refused(core: Any, namespace: str) -> None:
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"n": "1"})
    made = core.create_namespaced_config_map(namespace, body)
    made.data = {"n": "2"}
    core.replace_namespaced_config_map("c", namespace, made)
    with pytest.raises(client.ApiException) as refused:
        core.replace_namespaced_config_map("c", namespace, made)
    assert refused.value.status == 409


def test_deployments_come_and_go(reach: Any, core: Any, namespace: str) -> None:
    apps = client.AppsV1Api(reach)
    pod = a_pod("", scheduler="default-scheduler", app="web")
    body = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=3,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=pod.spec),
        ),
    )
    made = apps.create_namespaced_deployment(namespace, body)
    assert (made.spec.replicas, made.metadata.generation) == (3, 1)
    assert apps.read_namespaced_deployment_scale("web", namespace).spec.replicas == 3
    scaled = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}})
    assert scaled.spec.replicas == 2
    status = apps.delete_namespaced_deployment("web", namespace, propagation_policy="Background")
    said = status if isinstance(status, dict) else status.to_dict()  # the type differs between versions of the client
    assert said["status"] == "Success"
    with pytest.raises(client.ApiException) as missing:
        apps.read_namespaced_deployment("web", namespace)
    assert missing.value.status == 404


def test_events_are_read_and_written(reach: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, a_pod("p", scheduler="default-scheduler"))
    follow(
        core.list_namespaced_pod,
        namespace,
        until=lambda type, pod: pod.status.phase == "Running",
        field_selector="metadata.name=p",
    )
    found = core.list_namespaced_event(namespace, field_selector="involvedObject.name=p,reason=Scheduled")
    (event,) = found.items
    assert event.message.startswith(f"Successfully assigned {namespace}/p to node-")
    newer = client.EventsV1Api(reach).list_namespaced_event(namespace, field_selector="reason=Scheduled")
    assert [item.note for item in newer.items] == [event.message]
    written = client.CoreV1Event(
        metadata=client.V1ObjectMeta(name="mine"),
        involved_object=client.V1ObjectReference(kind="Pod", name="p", namespace=namespace),
        message="seen by a test",
        reason="Tested",
        type="Normal",
    )
    assert core.create_namespaced_event(namespace, written).message == "seen by a test"


def test_a_pod_runs_and_goes(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, a_pod("p", scheduler="default-scheduler"))
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    follow(core.list_namespaced_pod, namespace, until=lambda type, pod: pod.status.phase == "Running")
    leaving = core.delete_namespaced_pod("p", namespace, grace_period_seconds=1)
    assert leaving.metadata.deletion_grace_period_seconds == 1
    seen = follow(
        core.list_namespaced_pod, namespace, until=lambda type, pod: type == "DELETED", resource_version=version
    )
    assert seen[-1][1].metadata.name == "p"


def test_evictions_and_versions(reach: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, a_pod("p"))
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace))
    core.create_namespaced_pod_eviction("p", namespace, eviction, _preload_content=False)
    with pytest.raises(client.ApiException):
        core.read_namespaced_pod("p", namespace)
    assert client.VersionApi(reach).get_code().major == "1"
    assert "apps" in [group.name for group in client.ApisApi(reach).get_api_versions().groups]
