"""What a form of a pod hands on to the next: what is worked out of it, as far as the change does not touch that."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus


def test_an_assumed_pod_looks_as_if_bound_and_keeps_what_was_worked_out() -> None:
    pod = a_pod(cpu="1", metadata={"uid": "u"})
    shape, label_set = pod.shape, pod.label_set
    placed = pod.with_node("n1")
    assert (placed.spec.node_name, pod.spec.node_name) == ("n1", "")
    assert placed.shape is shape
    assert placed.label_set is label_set
    assert placed.metadata == pod.metadata
    assert vars(placed) == vars(pod), "nothing is worked out a second time"


def test_another_status_or_version_keeps_what_was_worked_out() -> None:
    pod = a_pod(cpu="1", labels={"a": "b"})
    assert pod.shape and pod.label_set and pod.id
    running, newer = pod.with_status(PodStatus(phase="Running")), pod.with_version("7")
    assert (running.status.phase, pod.status.phase) == ("Running", "")
    assert (newer.metadata.resource_version, newer.metadata.labels) == ("7", {"a": "b"})
    assert vars(running) == vars(newer) == vars(pod)


def test_another_pod_of_the_template_shares_its_shape_and_has_an_id_of_its_own() -> None:
    template = a_pod(cpu="1", metadata={"uid": "u"})
    assert template.id == "u"
    other = template.with_name("p-1", uid="u-1")
    assert (other.name, other.id) == ("p-1", "u-1")
    assert other.__dict__["shape"] is template.shape and other.__dict__["label_set"] is template.label_set


# What a pod takes over from its older form


def with_status(pod: Pod, **status: Any) -> Pod:
    copy = msgspec.convert(msgspec.to_builtins(pod), Pod)
    copy.status = msgspec.convert(status, type(copy.status))
    return copy


def test_a_change_of_status_keeps_spec_and_shape() -> None:
    old = a_pod(cpu="1", metadata={"uid": "u"})
    shape, label_set = old.shape, old.label_set
    new = with_status(old, phase="Running", podIP="10.0.0.1")
    new.inherit(old)
    assert new.spec is old.spec and new.__dict__["shape"] is shape and new.__dict__["label_set"] is label_set


def test_a_binding_keeps_the_shape_and_not_the_spec() -> None:
    old = a_pod(cpu="1")
    shape = old.shape
    new = a_pod(cpu="1", nodeName="n1")
    new.inherit(old)
    assert new.spec.node_name == "n1" and old.spec.node_name == "" and new.__dict__["shape"] is shape


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(a_pod(cpu="2"), id="a new request"),
        pytest.param(
            a_pod(cpu="1", status={"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}),
            id="a resize that cannot be done",
        ),
        pytest.param(
            a_pod(cpu="1", status={"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}),
            id="resources in force",
        ),
    ],
)
def test_what_changes_requests_is_worked_out_anew(new: Pod) -> None:
    old = a_pod(cpu="1")
    assert old.shape and old.label_set
    new.inherit(old)
    assert "shape" not in new.__dict__ and "label_set" not in new.__dict__


def test_a_new_label_makes_another_label_set_of_the_same_shape() -> None:
    old, new = a_pod(cpu="1"), a_pod(cpu="1", labels={"a": "b"})
    assert old.shape and old.label_set
    new.inherit(old)
    assert new.__dict__["shape"] is old.shape and new.label_set is not old.label_set


# What pods share


def decoded(**labels: str) -> Pod:
    """A pod that shares nothing yet, as one from the network."""
    written = {"metadata": {"name": "p", "namespace": "team", "labels": labels}}
    written |= {"spec": {"schedulerName": "default-scheduler"}, "status": {"phase": "Running"}}
    return msgspec.json.decode(msgspec.json.encode(written), type=Pod)


def test_pods_of_one_label_set_share_labels_and_namespace() -> None:
    one, other, turned = decoded(a="1", b="2"), decoded(a="1", b="2"), decoded(b="2", a="1")
    assert one.label_set is other.label_set is turned.label_set
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.namespace is other.metadata.namespace is turned.metadata.namespace
    assert list(turned.metadata.labels or ()) == ["b", "a"], "labels stay in the order in which they are written"


def test_a_pod_without_labels_has_none_afterwards() -> None:
    pod = msgspec.json.decode(b'{"metadata": {"name": "p"}}', type=Pod)
    assert pod.label_set.labels == {}
    assert pod.metadata.labels is None


def test_pods_share_the_words_that_nearly_all_have() -> None:
    one, other = decoded(), decoded()
    assert one.shape is other.shape
    assert one.spec.scheduler_name is other.spec.scheduler_name
    assert one.status.phase is other.status.phase
    assert msgspec.json.encode(one) == msgspec.json.encode(decoded())
