"""The table of fields is made from upstream's OpenAPI documents and types.go (tools/upstream_fields.py)."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from upstream_fields import TABLE, Checkout, Package, Writer, packages

from mooring.api.fields import table

CORE = "io.k8s.api.core.v1"
GO = """
type Pod struct {
    metav1.TypeMeta `json:",inline"`
    metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
    // A comment `json:"not" protobuf:"bytes,9,opt,name=not"`
    Spec PodSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

type PodSpec struct {
    Handler `json:"" protobuf:"bytes,7,opt,name=handler"`
    Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
    Count int32 `json:"count,omitempty" protobuf:"varint,2,opt,name=count"`
    Least *int32 `json:"least,omitempty" protobuf:"varint,3,opt,name=least"`
    Parts []PodSpec `json:"parts,omitempty" protobuf:"bytes,4,rep,name=parts"`
    Data map[string][]byte `json:"data,omitempty" protobuf:"bytes,5,rep,name=data"`
}

type Handler struct {
    Port *intstr.IntOrString `json:"port,omitempty" protobuf:"bytes,3,opt,name=port"`
}

type Binding Pod
"""
REFERENCE = "#/components/schemas"
SCHEMAS = {
    f"{CORE}.Pod": {
        "properties": {
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REFERENCE}/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
            "spec": {"allOf": [{"$ref": f"{REFERENCE}/{CORE}.PodSpec"}], "default": {}},
        },
        "required": ["spec"],
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
    },
    f"{CORE}.PodSpec": {
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "format": "int32"},
            "least": {"type": "integer", "format": "int32"},
            "parts": {
                "type": "array",
                "items": {"allOf": [{"$ref": f"{REFERENCE}/{CORE}.PodSpec"}]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "count"],
                "x-kubernetes-patch-strategy": "merge,retainKeys",
                "x-kubernetes-patch-merge-key": "name",
            },
            "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            "port": {"$ref": f"{REFERENCE}/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
            "anything": {"$ref": f"{REFERENCE}/io.k8s.apimachinery.pkg.runtime.RawExtension"},
        },
        "required": ["name"],
    },
}


def a_checkout(folder: Path) -> Checkout:
    documents = folder / "api/openapi-spec/v3"
    types = folder / "staging/src/k8s.io/api/core/v1"
    for made in (documents, types):
        made.mkdir(parents=True)
    (documents / "api__v1_openapi.json").write_text(json.dumps({"components": {"schemas": SCHEMAS}}))
    (types / "types.go").write_text(GO)
    return Checkout(folder)


def test_the_numbers_of_protobuf_come_from_tags(tmp_path: Path) -> None:
    checkout = a_checkout(tmp_path)
    assert {name: str(tag) for name, tag in checkout.tags(f"{CORE}.PodSpec").items()} == {
        "port": "7.3?",
        "name": "1?",
        "count": "2",
        "least": "3?",
        "parts": "4",
        "data": "5",
    }
    assert checkout.tags(f"{CORE}.Binding") == checkout.tags(f"{CORE}.Pod"), "a type that is another"


def test_a_type_is_written_with_what_its_fields_hold(tmp_path: Path) -> None:
    known = [Package("meta", "io.k8s.apimachinery.pkg.apis.meta.v1"), Package("core", CORE)]
    writer = Writer(a_checkout(tmp_path), known)
    assert [*writer.fields(f"{CORE}.Pod")] == [
        "    kind string -",
        "    metadata meta.ObjectMeta 1",
        "    spec! PodSpec 2",
    ]
    assert [*writer.fields(f"{CORE}.PodSpec")] == [
        "    anything object -",
        "    count integer 2",
        "    data {string} 5 bytes",
        "    least integer 3?",
        "    name! string 1?",
        "    parts [PodSpec] 4 list-type=map list-map-keys=name,count patch-merge-key=name patch-strategy=merge,retainKeys",
        "    port int-or-string 7.3",
    ]


def test_the_table_has_the_packages_of_all_served_versions() -> None:
    assert table().packages == {package.short: package.full for package in packages()}
    assert TABLE.read_text().splitlines()[0].endswith("facts of Kubernetes v1.37, without their descriptions.")
