"""Keys of annotations that plugins declare, and plugins that read some and declare none."""

import pytest

from mooring.framework.contract.annotation_keys import AnnotationKeys, reads_annotations
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.framework.profile.registry import Registry
from mooring.model.pod import Pod
from mooring.plugins import in_tree


@pytest.mark.parametrize(
    ("patterns", "kept", "missing"),
    [
        (["a/x"], ["a/x"], []),
        (["a/x"], ["a/*"], []),
        (["a/x", "b"], ["a/*"], ["b"]),
        (["a/*"], ["a/x"], ["a/*"]),
        (["a/*"], ["a/*"], []),
        (["a/b*"], ["a/*"], []),
        (["a/*"], ["a/b*"], ["a/*"]),
        (["a/*", "b"], ["*"], []),
        (["a/*"], ["a/"], ["a/*"]),
    ],
)
def test_patterns_that_were_not_kept(patterns: list[str], kept: list[str], missing: list[str]) -> None:
    assert AnnotationKeys.of(patterns).missing_in(AnnotationKeys.of(kept)) == missing


def test_a_prefix_means_all_keys_that_begin_so() -> None:
    keys = AnnotationKeys.of(["example.com/*", "note"])
    assert [key in keys for key in ("example.com/watts", "note", "notes", "example.org/watts")] == [
        True,
        True,
        False,
        False,
    ]


class Direct(PlainPlugin):
    name = "Direct"

    def score(self, pod: Pod, node: NodeView) -> int:
        return max((len(text) for text in node.annotations.values()), default=0)


class Inherited(Direct):
    name = "Inherited"


class Declaring(Direct):
    name = "Declaring"
    annotations = ("example.com/watts",)


def test_a_plugin_that_reads_annotations_and_declares_none_is_found() -> None:
    assert Registry([Direct, Inherited, Declaring]).undeclared_readers() == ["Direct", "Inherited"]
    assert Registry([Declaring]).all_annotation_keys().patterns() == ["example.com/watts"]


def test_plugins_of_mooring_need_no_declaration_because_their_annotations_are_known() -> None:
    assert in_tree().undeclared_readers() == []


def test_a_function_beside_the_class_counts_and_another_attribute_does_not() -> None:
    told: dict[str, type] = {}
    for attribute in ("annotations", "labels"):
        scope = {"__name__": "somewhere"}
        exec(
            "class Helped:\n    def score(self, pod, node):\n        return read(node)\n"
            f"def read(node):\n    return [node.{attribute} for _ in (1,)]\n",
            scope,
        )
        told[attribute] = scope["Helped"]  # type: ignore[assignment]
    assert reads_annotations(told["annotations"])
    assert not reads_annotations(told["labels"])
