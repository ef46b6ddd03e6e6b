"""Shapes and label set: shared by pods of one template, and what a shape works out."""

from copy import copy
from typing import Any

import msgspec
import pytest

from build import a_pod
from mooring.model import shape
from mooring.model.label_set import label_set_of
from mooring.model.shape import PodPart, tagged

MI = 1 << 20


def test_pods_of_one_template_share_shape_and_label_set() -> None:
    one, two = (a_pod(name, cpu="1", labels={"app": "web"}, nodeName=name) for name in ("a", "b"))
    assert one.shape is two.shape
    assert one.label_set is two.label_set


DIFFERENCES: list[Any] = [
    pytest.param({"requests": {"cpu": "2"}}, id="requests"),
    pytest.param({"nodeSelector": {"disk": "ssd"}}, id="node selector"),
    pytest.param({"nodeSelector": {}}, id="a node selector that is there but empty"),
    pytest.param({"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
    pytest.param({"affinity": {"podAffinity": {}}}, id="affinity"),
    pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, id="spread constraints"),
    pytest.param({"overhead": {"cpu": "1"}}, id="overhead"),
    pytest.param({"hostNetwork": True}, id="host network"),
    pytest.param({"hostUsers": False}, id="host users"),
    pytest.param({"volumes": [{"name": "v", "image": {"reference": "data"}}]}, id="image volumes"),
    pytest.param({"status": {"resources": {"requests": {"cpu": "9"}}}}, id="resources in force"),
]


def test_pods_of_one_template_share_the_parts_of_their_specs_that_the_shape_has() -> None:
    """Thousands of equal containers and terms would take more than half of the memory of all pods."""
    template: dict[str, Any] = {"cpu": "1", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}
    one, other = a_pod("one", **template, priority=1), a_pod("other", **template, priority=2, nodeName="n")
    before = msgspec.json.encode(other)
    assert one.shape is other.shape
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations
    assert (one.spec.priority, other.spec.priority, other.spec.node_name) == (1, 2, "n")
    assert msgspec.json.encode(other) == before


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_what_makes_another_shape(difference: dict[str, Any]) -> None:
    assert a_pod().shape is not a_pod(**difference).shape


SAME: list[Any] = [
    pytest.param({"labels": {"app": "db"}}, id="labels"),
    pytest.param({"priority": 7}, id="priority"),
    pytest.param({"status": {"phase": "Running"}}, id="phase"),
    pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, id="conditions that do not resize"),
]


@pytest.mark.parametrize("difference", SAME)
def test_what_does_not_make_another_shape(difference: dict[str, Any]) -> None:
    assert a_pod().shape is a_pod(**difference).shape


def test_kin_are_namespace_and_labels_in_any_order() -> None:
    label_set = label_set_of("n", {"a": "1", "b": "2"})
    assert label_set_of("n", {"b": "2", "a": "1"}) is label_set
    assert label_set_of("m", {"a": "1", "b": "2"}) is not label_set
    assert label_set_of("n", {"a": "1"}) is not label_set


def test_amounts_in_table_units() -> None:
    shape = a_pod(cpu="1500m", requests={"example.com/gpu": "2"}).shape
    assert shape.request == {"cpu": 1500, "example.com/gpu": 2}
    assert shape.score_request == {"cpu": 1500, "example.com/gpu": 2, "memory": 200 * MI}
    assert shape.held == {"cpu": (1500, 1500), "example.com/gpu": (2, 2), "memory": (0, 200 * MI)}


def test_host_ports_of_containers_and_sidecars() -> None:
    def with_port(restart: str | None, **port: Any) -> dict[str, Any]:
        return {"name": f"c{port['hostPort']}", "restartPolicy": restart, "ports": [port]}

    pod = a_pod(
        initContainers=[with_port(None, hostPort=1), with_port("Always", hostPort=2)],
        containers=[with_port(None, hostPort=3, hostIP="10.0.0.1", protocol="UDP"), with_port(None, hostPort=0)],
    )
    assert pod.shape.host_ports == (("0.0.0.0", "TCP", 2), ("10.0.0.1", "UDP", 3))


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.25", "nginx:1.25"),
        ("host:5000/x", "host:5000/x:latest"),
        ("host:5000/x:v1", "host:5000/x:v1"),
        ("x@sha256:abc", "x@sha256:abc"),
    ],
)
def test_images_get_a_tag(image: str, name: str) -> None:
    assert tagged(image) == name


def test_images_of_init_containers_containers_and_volumes() -> None:
    pod = a_pod(
        initContainers=[{"name": "i", "image": "init"}],
        containers=[{"name": "c", "image": "main:1"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}, {"name": "w"}],
    )
    assert pod.shape.images == ("init:latest", "main:1", "data:latest")


def test_preferred_nodes_without_weight_or_content_are_dropped() -> None:
    preference = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    soft = [
        {"weight": 0, "preference": preference},
        {"weight": 3, "preference": preference},
        {"weight": 4, "preference": {}},
    ]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    shape = a_pod(affinity={"nodeAffinity": {key: soft}}).shape
    assert [weight for weight, _ in shape.preferred_nodes or ()] == [3]
    assert a_pod(affinity={"nodeAffinity": {key: []}}).shape.preferred_nodes == ()
    assert a_pod().shape.preferred_nodes is None
    assert a_pod().shape.required_nodes is None


def test_terms_depend_on_the_namespace() -> None:
    term = {"labelSelector": {}, "topologyKey": "zone"}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    shape = a_pod(affinity={"podAffinity": {key: [term]}}).shape
    assert shape.terms("a").affinity[0].namespaces == {"a"}
    assert shape.terms("b").affinity[0].namespaces == {"b"}
    assert shape.terms("a") is shape.terms("a")


# ---- parts


PART_DIFFERENCES: list[Any] = [
    pytest.param(PodPart.TOLERATIONS, {"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
    pytest.param(PodPart.NODE_SELECTION, {"nodeSelector": {"disk": "ssd"}}, id="node selector"),
    pytest.param(PodPart.NODE_SELECTION, {"nodeSelector": {}}, id="a node selector that is there but empty"),
    pytest.param(PodPart.NODE_SELECTION, {"affinity": {"nodeAffinity": {}}}, id="node affinity"),
    pytest.param(PodPart.IMAGES, {"containers": [{"name": "c", "image": "nginx"}]}, id="images"),
    pytest.param(PodPart.PORTS, {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}, id="host ports"),
    pytest.param(PodPart.REQUESTS, {"cpu": "2"}, id="requests"),
    pytest.param(PodPart.REQUESTS, {"cpu": "2", "memory": "1Gi"}, id="requests of all that scoring counts"),
    pytest.param(PodPart.REQUESTS, {"overhead": {"cpu": "1"}}, id="overhead"),
    pytest.param(PodPart.SPREAD, {"topologySpreadConstraints": [{"maxSkew": 1}]}, id="spread constraints"),
    pytest.param(PodPart.POD_TERMS, {"affinity": {"podAffinity": {}}}, id="pod affinity"),
    pytest.param(PodPart.STORAGE, {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, id="storage"),
    pytest.param(PodPart.FEATURES, {"hostNetwork": True}, id="host network"),
    pytest.param(PodPart.FEATURES, {"hostUsers": False}, id="host users"),
    pytest.param(
        PodPart.FEATURES,
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]},
        id="restart rules",
    ),
]


@pytest.mark.parametrize("is_worked_out", [True, False], ids=["on arrival", "when asked for"])
@pytest.mark.parametrize(("part", "difference"), PART_DIFFERENCES)
def test_a_part_is_shared_by_the_shapes_that_agree_in_it(
    part: PodPart, difference: dict[str, Any], is_worked_out: bool
) -> None:
    plain, one, other = a_pod(), a_pod(**difference), a_pod(**difference, status={"resources": {}})
    for pod in (plain, one, other) if is_worked_out else ():
        pod.shape.work_out()
    assert one.shape is not other.shape
    assert one.shape.part(part) is other.shape.part(part)
    assert one.shape.part(part) is not plain.shape.part(part)


def test_parts_in_which_pods_say_nothing_are_the_same() -> None:
    one, other = a_pod("one", cpu="1"), a_pod("other", cpu="2", tolerations=[])
    said = {part for part in PodPart if one.shape.part(part) is not other.shape.part(part)}
    assert said == {PodPart.WHOLE, PodPart.REQUESTS}


def test_annotations_that_a_plugin_declares_belong_to_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "declared_annotations", ())
    before = a_pod(metadata={"annotations": {"gpu": "1"}})
    assert before.shape is a_pod(metadata={"annotations": {"gpu": "2"}}).shape
    shape.add_shape_annotations(["gpu"])
    one, same, other, none = (
        a_pod(cpu=cpu, metadata={"annotations": {"gpu": gpu, "note": cpu} if gpu else {"note": "n"}})
        for cpu, gpu in (("1", "1"), ("2", "1"), ("1", "2"), ("1", ""))
    )
    assert [pod.shape.annotations for pod in (one, other, none)] == [{"gpu": "1"}, {"gpu": "2"}, {}]
    assert one.shape is not other.shape
    said = PodPart.ANNOTATIONS
    assert one.shape.part(said) is same.shape.part(said) is not other.shape.part(said)
    assert none.shape.part(said) is a_pod().shape.part(said)
    assert none.shape is a_pod(cpu="1").shape


def test_a_pod_that_changes_keeps_its_shape_unless_an_annotation_of_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "declared_annotations", ("gpu",))
    old = a_pod(metadata={"annotations": {"gpu": "1", "note": "a"}})
    known = old.shape
    other_note = a_pod(metadata={"annotations": {"gpu": "1", "note": "b"}})
    other_note.inherit(old)
    assert other_note.shape is known
    other_gpu = a_pod(metadata={"annotations": {"gpu": "2", "note": "a"}})
    other_gpu.inherit(old)
    assert other_gpu.shape.annotations == {"gpu": "2"}


def test_shapes_and_parts_go_with_the_last_pod_that_has_them() -> None:
    before = len(shape.interned_shapes), len(shape.interned_parts)
    one, other = (a_pod(name, cpu="7321m", nodeSelector={"only": "here"}) for name in ("one", "other"))
    one.shape.work_out()
    assert other.shape is one.shape and (len(shape.interned_shapes), len(shape.interned_parts)) > before
    del one
    assert len(shape.interned_shapes) > before[0]
    del other
    assert (len(shape.interned_shapes), len(shape.interned_parts)) == before


def test_a_shape_that_came_back_under_its_key_stays_when_the_old_one_goes() -> None:
    """A shape in a cycle may be finalised after another one took its place."""
    pod = a_pod("one", cpu="7322m")
    old = copy(pod.shape)
    del old
    assert a_pod("other", cpu="7322m").shape is pod.shape
