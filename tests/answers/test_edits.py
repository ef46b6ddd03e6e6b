"""Edits applied to a list of objects."""

from build import a_node, a_pod
from mooring.answers.trial.counterfactual import (
    ChangePod,
    Edit,
    MovePod,
    PlacePod,
    PutObject,
    RemovePod,
    changed_pod,
    edited,
)
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

NODE, OTHER = a_node("n"), a_node("m")
WEB, NEW = a_pod("web", cpu="1", nodeName="n"), a_pod("new", cpu="2")


def after(*edits: Edit) -> list[KubeObject]:
    return edited([NODE, WEB], edits)


def test_each_edit_changes_its_object_and_no_other() -> None:
    assert after() == [NODE, WEB]
    assert after(RemovePod(WEB)) == [NODE]
    assert after(RemovePod(NEW)) == [NODE, WEB], "it is not there"
    assert after(PlacePod(NEW)) == [NODE, WEB, NEW]
    assert after(PutObject(OTHER)) == [NODE, WEB, OTHER]
    larger = a_node("n", cpu="64")
    assert after(PutObject(larger)) == [larger, WEB]
    form = a_pod("web", cpu="500m")
    assert after(ChangePod(form)) == [NODE, form]
    moved = after(MovePod(WEB, "m"))[1]
    assert isinstance(moved, Pod) and moved.spec.node_name == "m"


def test_edits_are_made_in_their_order() -> None:
    assert after(RemovePod(WEB), PlacePod(WEB)) == [NODE, WEB]
    assert after(PlacePod(WEB), RemovePod(WEB)) == [NODE]


def test_the_pod_of_a_question_has_the_form_of_its_change() -> None:
    assert changed_pod(WEB, [PutObject(NODE)]) is WEB
    assert changed_pod(WEB, [PutObject(NODE), ChangePod(NEW)]) is NEW
