"""Manifests for an API server: every kind that it serves is checked for unknown and repeated fields, with lines."""

import io
import json
from typing import Any

from mooring.inputs.documents import STDIN, ManifestFile
from mooring.inputs.field_checks import ServedObjects, Validation, read_served, template_problems

TEXT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
dat: {}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: m, image: i}]
  containers: [{name: m, image: i}]
---
apiVersion: example.com/v1
kind: Custom
anything: goes
"""


def read_text(text: str, validation: Validation = Validation.STRICT) -> ServedObjects:
    return read_served([STDIN], io.BytesIO(text.encode()), validation)


def test_unknown_and_repeated_fields_are_problems_with_lines() -> None:
    assert [str(problem) for problem in read_text(TEXT).problems] == [
        "standard input:4: ConfigMap default/c: dat: unknown field; did you mean data?",
        "standard input:11: Pod default/web: spec.containers: duplicate field; remove all but one containers",
    ]


def test_they_can_be_warnings_or_be_ignored() -> None:
    warned, ignored = read_text(TEXT, Validation.WARN), read_text(TEXT, Validation.IGNORE)
    assert (len(warned.warnings), warned.problems) == (2, [])
    assert (ignored.warnings, ignored.problems) == ([], [])
    assert [item["kind"] for item in warned.items] == ["ConfigMap", "Pod", "Custom"]


def test_an_object_of_another_server_may_have_newer_fields() -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"fromTheFuture": 1}}
    pod["metadata"] = {"name": "web", "uid": "1", "resourceVersion": "1"}
    read = read_text(json.dumps(pod))
    assert (len(read.warnings), read.problems) == (1, [])


def test_a_file_that_is_missing_and_one_that_does_not_parse_are_problems() -> None:
    read = read_served(["/nowhere.yaml", STDIN], io.BytesIO(b"a: ["), Validation.STRICT)
    assert len(read.problems) == 2


def test_a_template_may_leave_out_what_it_is() -> None:
    text = b"spec:\n  taintz: []\n"
    (problem,) = template_problems(ManifestFile("t.yaml", text), "Node", {"spec": {"taintz": []}})
    assert str(problem) == "t.yaml:2: Node in document 1: spec.taintz: unknown field; did you mean taints?"
