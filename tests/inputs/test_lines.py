"""The line of a field, in YAML and in JSON, by a scanner that knows nothing of trees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.inputs.documents import DocumentPlace, ManifestFile
from mooring.inputs.lines import lines_of, steps_of

FIRST = DocumentPlace("f", (1,))


def line_of(text: str, path: str, place: DocumentPlace = FIRST, name: str = "f") -> int:
    return lines_of(ManifestFile(name, text.encode()), [(place, path)])[0]


YAML = """\
kind: Pod
spec:
  containers:
    - name: a

    - name: b
      resources:
        limits: {example.com/gpu: 1,
          cpu: 2}
---
# the second
kind: List
items:
- kind: Pod
- kind: Node
  spec: &it
    unschedulable: true
- kind: Node
  spec: *it
"""
ROWS: list[Any] = [
    pytest.param((1,), "kind", 1, id="the first field"),
    pytest.param((1,), "spec.containers", 3, id="a list"),
    pytest.param((1,), "spec.containers[0].name", 4, id="a field of an item"),
    pytest.param((1,), "spec.containers[1]", 6, id="an item"),
    pytest.param((1,), "spec.containers[1].resources.limits[example.com/gpu]", 8, id="a key in brackets"),
    pytest.param((1,), "spec.containers[1].resources.limits.cpu", 9, id="in flow style"),
    pytest.param((1,), "spec.containers[1].resources.requests.cpu", 7, id="what is missing stands where it would"),
    pytest.param((1,), "spec.containers[5].name", 3, id="an item that is not there"),
    pytest.param((1,), "", 1, id="the object itself"),
    pytest.param((2, 1), "kind", 14, id="an item of a list"),
    pytest.param((2, 2), "spec.unschedulable", 17, id="behind an anchor"),
    pytest.param((2, 3), "spec.unschedulable", 19, id="behind an alias: where the alias is"),
    pytest.param((3,), "kind", 0, id="a document that is not there"),
]


@pytest.mark.parametrize(("numbers", "path", "line"), ROWS)
def test_lines_of_yaml(numbers: tuple[int, ...], path: str, line: int) -> None:
    assert line_of(YAML, path, DocumentPlace("f", numbers)) == line


def test_lines_of_json_in_several_documents_and_lists() -> None:
    text = '{"kind": "Pod"}\n{"kind": "List", "items": [\n\n{"kind": "Pod",\n "spec": {\n"a": [1,\n2]}}]}'
    assert line_of(text, "kind") == 1
    assert line_of(text, "spec.a[1]", DocumentPlace("f", (2, 1))) == 7
    assert line_of(text, "spec.b", DocumentPlace("f", (2, 1))) == 5, "what is missing stands where it would"


def test_the_last_of_two_equal_keys_is_the_one_that_counts() -> None:
    assert line_of('{"a": 1,\n"a": 2}', "a", name="f.json") == 2
    assert line_of("a: 1\na: 2", "a") == 2


def test_broken_text_has_lines_as_far_as_it_goes() -> None:
    assert line_of("a: 1\nb: {", "a") == 1


def test_keys_as_messages_write_them() -> None:
    assert steps_of("spec.containers[0].limits[example.com/gpu].x-y") == [
        "spec", "containers", 0, "limits", "example.com/gpu", "x-y",
    ]  # fmt: skip


NAMES = st.text("abc", min_size=1, max_size=3)
TREES = st.recursive(
    st.integers(0, 9),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=4),
    max_leaves=20,
)


def _spell(value: Any, path: str, out: list[str], found: dict[str, int]) -> None:
    """Writes JSON with each value on a line of its own, and notes the line of each path."""
    found[path] = len(out)
    if isinstance(value, dict):
        out[-1] += "{"
        for i, (key, inner) in enumerate(value.items()):
            out.append(("," if i else "") + f'"{key}": ')
            _spell(inner, f"{path}.{key}" if path else key, out, found)
        out.append("}")
    elif isinstance(value, list):
        out[-1] += "["
        for i, inner in enumerate(value):
            out.append("," if i else "")
            _spell(inner, f"{path}[{i}]", out, found)
            # A comma before its item would stand on the same line: keep it so.
        out.append("]")
    else:
        out[-1] += str(value)


@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_json_and_yaml_agree_with_a_writer_that_counts_its_lines(tree: dict[str, Any]) -> None:
    out, found = [""], dict[str, int]()
    _spell(tree, "", out, found)
    text = "\n".join(out)
    fields = [(FIRST, path) for path in found]
    assert lines_of(ManifestFile("f.json", text.encode()), fields) == [*found.values()]
    assert lines_of(ManifestFile("f.yaml", b"# as YAML\n" + text.encode()), fields) == [n + 1 for n in found.values()]
