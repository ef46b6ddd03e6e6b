"""An update holds what changed, and gives the same object again."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectUpdated
from mooring.state.recording.recorded_steps import LINES, Concealer, block_of, changes_between, with_changes

LABELS = st.none() | st.dictionaries(st.sampled_from("abc"), st.text(max_size=3), max_size=2)
PODS = st.builds(
    lambda labels, version, node, priority, phase, nominated: msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": labels, "resourceVersion": version},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "c"}]},
            "status": {"phase": phase, "nominatedNodeName": nominated},
        },
        Pod,
    ),
    LABELS,
    st.none() | st.text(max_size=2),
    st.sampled_from(["", "n1"]),
    st.none() | st.integers(-(1 << 70), 1 << 70),
    st.sampled_from(["", "Running"]),
    st.sampled_from(["", "n2"]),
)


def over_the_file(old: KubeObject, new: KubeObject) -> KubeObject:
    written = msgspec.json.encode(changes_between(old, new))
    return with_changes(old, msgspec.json.decode(written, type=dict[str, msgspec.Raw]))


@given(old=PODS, new=PODS)
def test_the_changes_make_the_new_object_of_the_old_one(old: Pod, new: Pod) -> None:
    assert over_the_file(old, new) == new


def test_only_what_changed_is_written() -> None:
    old = a_pod("p", cpu="1")
    assert changes_between(old, old) == {}
    assert changes_between(old, old.with_node("n1")) == {"spec": {"nodeName": "n1"}}


def test_a_heartbeat_is_its_conditions() -> None:
    old, new = a_node("n", cpu="1"), a_node("n", cpu="1")
    beat: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
    new.status = msgspec.convert({**msgspec.to_builtins(new.status), **beat}, type(new.status))
    assert list(changes_between(old, new)) == ["status"]
    assert list(changes_between(old, new)["status"]) == ["conditions"]
    assert over_the_file(old, new) == new


ANNOTATIONS = st.none() | st.dictionaries(st.sampled_from(("note", "key")), st.sampled_from(("hush-1", "hush-2")))


@given(old=PODS, new=PODS, before=ANNOTATIONS, after=ANNOTATIONS)
def test_an_update_has_no_text_of_annotations(
    old: Pod, new: Pod, before: dict[str, str] | None, after: dict[str, str] | None
) -> None:
    old.metadata.annotations, new.metadata.annotations = before, after
    conceal = Concealer()
    code, parts = LINES[ObjectUpdated]
    written = block_of([(code, 5, (), *parts(ObjectUpdated(old, new), conceal))])
    assert b"hush" not in written
    *_, changes = msgspec.json.decode(written, type=list[msgspec.Raw])
    assert with_changes(conceal(old), msgspec.json.decode(changes, type=dict[str, msgspec.Raw])) == conceal(new)


@pytest.mark.parametrize("text", ["secret", "", "ß" * 300])
def test_annotations_that_nothing_reads_are_digests(text: str) -> None:
    conceal = Concealer()
    node = a_node("n")
    node.metadata.annotations = {"note": text, "mooring.dev/run-seconds": "5"}
    hidden: Node = conceal(node)
    assert hidden.metadata.annotations is not None
    assert hidden.metadata.annotations["mooring.dev/run-seconds"] == "5"
    assert text not in hidden.metadata.annotations["note"] or not text
    assert len(hidden.metadata.annotations["note"]) == 12
    assert conceal(node) == hidden, "the same text has the same digest, so that an update without changes has none"
    assert Concealer()(node) != hidden, "each recording has its own key"
    assert node.metadata.annotations["note"] == text
