"""ConfigMaps, Secrets and service accounts: data that pods use and that no decision depends on."""

from base64 import b64decode
from binascii import Error

from mooring.api.api_errors import Cause, field_too_long
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import AGE, NAME, OF_METADATA, POSTED, Column, KindSpec, by, count, field_cell, labels_at

# ---- Authentication and authorization. The embedded server stores RBAC objects, so that manifests with them can be
# applied, but does not enforce them. Reviews are posted, answered and not stored.


_RBAC = ("rbac.authorization.k8s.io", "v1")
_AUTHENTICATION, _AUTHORIZATION = ("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")

CLUSTER_ROLE = KindSpec(*_RBAC, "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDING = KindSpec(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False)
ROLE = KindSpec(*_RBAC, "roles", "Role")
ROLE_BINDING = KindSpec(*_RBAC, "rolebindings", "RoleBinding")

SELF_SUBJECT_REVIEW = KindSpec(*_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", False, verbs=POSTED)
TOKEN_REVIEW = KindSpec(*_AUTHENTICATION, "tokenreviews", "TokenReview", False, verbs=POSTED)
SELF_SUBJECT_ACCESS_REVIEW = KindSpec(
    *_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=POSTED
)
SELF_SUBJECT_RULES_REVIEW = KindSpec(
    *_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, verbs=POSTED
)
SUBJECT_ACCESS_REVIEW = KindSpec(*_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", False, verbs=POSTED)


_MAX_DATA_BYTES = 1024 * 1024
"""Upstream's MaxSecretSize, also for ConfigMaps: 1 MiB. It is below the limit of the store and has a message of its own."""


def _config_map_faults(config_map: JsonObject) -> list[Cause]:
    """Parity: the fault is in the ConfigMap as a whole, which upstream writes as the path `[]`."""
    plain, encoded = config_map.get("data") or {}, config_map.get("binaryData") or {}
    return _too_long("[]", sum(map(_text_bytes, plain.values())) + sum(map(_decoded_bytes, encoded.values())))


def _secret_faults(secret: JsonObject) -> list[Cause]:
    return _too_long("data", sum(map(_decoded_bytes, (secret.get("data") or {}).values())))


def _too_long(path: str, size_bytes: int) -> list[Cause]:
    return [field_too_long(path, _MAX_DATA_BYTES)] if size_bytes > _MAX_DATA_BYTES else []


def _text_bytes(value: object) -> int:
    return len(value.encode()) if isinstance(value, str) else 0


def _decoded_bytes(value: object) -> int:
    """The size of decoded data. What is not base64 counts as it is; decoding the object rejects it elsewhere."""
    try:
        return len(b64decode(value)) if isinstance(value, str) else 0
    except (Error, ValueError):
        return _text_bytes(value)


CONFIG_MAP = KindSpec(
    *("", "v1", "configmaps", "ConfigMap", True, ("cm",)),
    faults=_config_map_faults,
    limits_own_size=True,
    columns=(NAME, Column("Data", count("data", "binaryData")), AGE),
)

SECRET = KindSpec(
    *("", "v1", "secrets", "Secret"),
    defaults={"type": "Opaque"},
    faults=_secret_faults,
    limits_own_size=True,
    field_labels={**OF_METADATA, **labels_at("type")},
    columns=(NAME, Column("Type", field_cell("type", "Opaque")), Column("Data", count("data")), AGE),
)

SERVICE_ACCOUNT = KindSpec(
    *("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",)),
    subresources=("token",),
    returns_deleted=True,
    lists={"secrets": by("name", atomic_items=True)},
    columns=(NAME, Column("Secrets", count("secrets")), AGE),
)
