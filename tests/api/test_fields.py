"""The table of fields: it is whole, it is spelt in one way, and it has what users of v1.36 write."""

import pytest

from mooring.api.fields import ANYTHING, Field, core_of, fields_of, full_name, is_type, part_of, table, type_of
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES

PLAIN = {
    *("string", "integer", "boolean", "object"),
    *("time", "micro-time", "quantity", "int-or-string", "fields-v1"),
}
ALSO_WRITTEN = (
    KindSpec("policy", "v1", "evictions", "Eviction"),
    KindSpec("autoscaling", "v1", "scales", "Scale"),
    KindSpec("meta", "v1", "deleteoptions", "DeleteOptions"),
    KindSpec("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest"),
)
"""Bodies of subresources."""
NOT_SERVED_YET = {"authorization.LocalSubjectAccessReview", "authorization.SelfSubjectRulesReview"}


@pytest.mark.parametrize(
    "resource",
    [*(r for r in RESOURCES.values() if r.schema is None), *REQUESTS, *ALSO_WRITTEN],
    ids=lambda resource: f"{resource.group}/{resource.kind}",
)
def test_every_kind_that_is_written_has_its_fields(resource: KindSpec) -> None:
    assert {"apiVersion", "kind"} < fields_of(type_of(resource)).keys()


def test_a_kind_that_is_not_in_the_table_holds_anything() -> None:
    assert type_of(KindSpec("example.org", "v1", "boats", "Boat")) == ANYTHING


def test_everything_that_is_held_is_a_plain_value_or_a_type_of_the_table() -> None:
    held = {core_of(field.holds) for fields in table().types.values() for field in fields.values()}
    assert {name for name in held if not is_type(name)} == PLAIN
    assert {name for name in held if is_type(name)} <= table().types.keys()


def test_every_type_is_held_by_another_or_written_by_users() -> None:
    held = {core_of(field.holds) for fields in table().types.values() for field in fields.values()}
    written = {type_of(resource) for resource in (*RESOURCES.values(), *REQUESTS, *ALSO_WRITTEN)}
    assert table().types.keys() - held - written <= {"meta.ListMeta", *NOT_SERVED_YET}


@pytest.mark.parametrize(
    ("name", "field", "expected"),
    [
        ("core.PodSpec", "containers", Field("[core.Container]", True)),
        ("core.PodSpec", "schedulingGroup", Field("core.PodSchedulingGroup", False)),
        ("core.PodStatus", "extendedResourceClaimStatus", Field("core.PodExtendedResourceClaimStatus", False)),
        ("core.NodeStatus", "declaredFeatures", Field("[string]", False)),
        ("core.ResourceRequirements", "requests", Field("{quantity}", False)),
        ("core.HTTPGetAction", "port", Field("int-or-string", True)),
        ("core.PodTemplateSpec", "metadata", Field("meta.ObjectMeta", False)),
        ("apps.DeploymentSpec", "template", Field("core.PodTemplateSpec", True)),
        ("coordination.LeaseSpec", "renewTime", Field("micro-time", False)),
        ("resource.Device", "attributes", Field("{resource.DeviceAttribute}", False)),
        ("authentication.UserInfo", "extra", Field("{[string]}", False)),
        ("meta.ManagedFieldsEntry", "fieldsV1", Field("fields-v1", False)),
    ],
)
def test_what_a_field_holds(name: str, field: str, expected: Field) -> None:
    assert fields_of(name)[field] == expected


def test_names_and_parts() -> None:
    assert full_name("core.Pod") == "io.k8s.api.core.v1.Pod"
    assert full_name("meta.ObjectMeta") == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert part_of("{[string]}") == "[string]"
    assert core_of("{[string]}") == "string"
