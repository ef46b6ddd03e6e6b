"""A marker in every text of every field that Kubernetes has, of every kind that a dump can hold: none is left."""

import json
from typing import Any

import pytest

from mooring.api.decode import decode_json
from mooring.api.fields import fields_of, is_list, is_map, is_type, part_of, type_of
from mooring.api.kinds import KINDS
from mooring.framework.config import default
from mooring.framework.config.settings import settings_object
from mooring.inputs.created_objects import Manifest
from mooring.inputs.dumps.anonymize import Anonymizer
from mooring.inputs.dumps.contents import dumped_objects
from mooring.inputs.manifests import Manifests

MARKER = "acmesecret"
FORMS = ("{}", "{}.kubernetes.io/x", "kubernetes.io/{}", "hugepages-{}", "{}/kubernetes.io/x", "1{}Gi")


def filled(holds: str, form: str, around: tuple[str, ...] = ()) -> Any:
    """A value for a field, with the marker in all texts and keys. A type inside itself is left out."""
    text = form.format(MARKER)
    if is_list(holds):
        return [filled(part_of(holds), form, around)]
    if is_map(holds):
        return {text: filled(part_of(holds), form, around)}
    if is_type(holds):
        if holds in around:
            return None
        return {name: filled(field.holds, form, (*around, holds)) for name, field in fields_of(holds).items()}
    plain = {"integer": 1, "boolean": True, "object": {text: text}, "fields-v1": {text: {}}}
    return plain.get(holds, text)


def an_object(kind: str, form: str) -> dict[str, Any]:
    item: dict[str, Any] = filled(type_of(KINDS[kind]), form)
    return {**item, "apiVersion": KINDS[kind].api_version, "kind": kind}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if type_of(KINDS[kind]) != "object"])
def test_no_marker_is_left_of_any_field(kind: str, form: str) -> None:
    written = an_object(kind, form)
    assert MARKER in json.dumps(written)
    item = decode_json(json.dumps(written).encode(), kind)
    anonymizer = Anonymizer(Manifests([Manifest(item, None)]))
    left = json.dumps([*dumped_objects(anonymizer.manifests())])
    assert MARKER not in left
    assert MARKER in str([*anonymizer.book.noted()]), "the object was read"


def test_no_marker_is_left_of_the_settings() -> None:
    settings = settings_object(default(), None)
    configuration = settings["configuration"]
    settings |= {MARKER: MARKER, "featureGates": {MARKER: True}}
    configuration |= {"clientConnection": {"kubeconfig": MARKER}, "extenders": [{"urlPrefix": MARKER}]}
    profile = configuration["profiles"][0]
    profile |= {"schedulerName": MARKER, MARKER: MARKER}
    profile["plugins"]["filter"] = {"enabled": [{"name": MARKER}], MARKER: []}
    profile["pluginConfig"].append({"name": MARKER, "args": {}})
    profile["pluginConfig"][0]["args"] |= {"what": MARKER, "which": [MARKER]}
    anonymizer = Anonymizer(Manifests([]), settings)
    assert MARKER not in json.dumps(anonymizer.settings())


@pytest.mark.parametrize(
    "text", ["kubernetes.io/pvc-protection", "foregroundDeletion", "resource.kubernetes.io/delete-protection"]
)
def test_finalizers_of_kubernetes_stay(text: str) -> None:
    book = Anonymizer(Manifests([])).book
    assert book.finalizer(text) == text
