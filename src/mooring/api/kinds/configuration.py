"""ConfigMaps, Secrets and service accounts: data that pods use and that no decision depends on."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterator

from mooring.api.api_errors import Cause, bad_request, field_forbidden, field_invalid, field_required, field_too_long
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import AGE, NAME, OF_METADATA, POSTED, Column, KindSpec, count, field_cell, labels_at
from mooring.api.validation.field_rules import named
from mooring.api.validation.problem import Problems
from mooring.model.names import config_key_faults, path_segment_faults

# ---- Authentication and authorization. The embedded server stores RBAC objects, so that manifests with them can be
# applied, but does not enforce them. Reviews are posted, answered and not stored.


_RBAC = ("rbac.authorization.k8s.io", "v1")
_AUTHENTICATION, _AUTHORIZATION = ("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")


def _path_name(path: str, name: str) -> Problems:
    """Names of roles are more than DNS names, such as `system:node`: whatever is a part of a path."""
    return named(path, name, path_segment_faults)


def _subject_faults(binding: JsonObject) -> list[Cause]:
    """A subject in a RoleBinding is in its namespace; one in a ClusterRoleBinding has to say in which it is."""
    return [
        field_required(f"subjects[{i}].namespace")
        for i, subject in enumerate(binding.get("subjects") or ())
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace")
    ]


CLUSTER_ROLE = KindSpec(*_RBAC, "clusterroles", "ClusterRole", False, name_rule=_path_name)
CLUSTER_ROLE_BINDING = KindSpec(
    *(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False), name_rule=_path_name, faults=_subject_faults
)
ROLE = KindSpec(*_RBAC, "roles", "Role", name_rule=_path_name)
ROLE_BINDING = KindSpec(*_RBAC, "rolebindings", "RoleBinding", name_rule=_path_name)

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


_FROZEN = "field is immutable when `immutable` is set"
_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
"""The data that a Secret of a type must have."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/\r\n])*={0,2}[\r\n]*")


def _config_map_faults(config_map: JsonObject) -> list[Cause]:
    """Parity: the fault of size is in the ConfigMap as a whole, which upstream writes as the path `[]`."""
    plain, encoded = config_map.get("data") or {}, config_map.get("binaryData") or {}
    twice = (
        field_invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in plain if key in encoded
    )
    size = sum(map(_text_bytes, plain.values())) + sum(map(_decoded_bytes, encoded.values()))
    return [*_bad_keys("data", plain), *twice, *_bad_keys("binaryData", encoded), *_too_long("[]", size)]


def _secret_faults(secret: JsonObject) -> list[Cause]:
    data = secret.get("data") or {}
    missing = [key for key in _NEEDED_KEYS.get(secret.get("type", ""), ()) if key not in data]
    return [
        *_bad_keys("data", data),
        *_too_long("data", sum(map(_decoded_bytes, data.values()))),
        *(field_required(f"data[{key}]") for key in missing),
    ]


def _bad_keys(path: str, data: JsonObject) -> Iterator[Cause]:
    for key in data:
        yield from (field_invalid(f"{path}[{key}]", key, why) for why in config_key_faults(key))


def _too_long(path: str, size_bytes: int) -> list[Cause]:
    return [field_too_long(path, _MAX_DATA_BYTES)] if size_bytes > _MAX_DATA_BYTES else []


def _frozen(old: JsonObject, new: JsonObject) -> list[Cause]:
    """The changes of a ConfigMap or Secret that is immutable."""
    if not old.get("immutable"):
        return []
    faults = [] if new.get("immutable") else [field_forbidden("immutable", _FROZEN)]
    changed = [part for part in ("data", "binaryData") if (old.get(part) or {}) != (new.get(part) or {})]
    return [*faults, *(field_forbidden(part, _FROZEN) for part in changed)]


def _complete_config_map(config_map: JsonObject) -> None:
    _check_encoding("ConfigMap", config_map.get("binaryData") or {})


def _complete_secret(secret: JsonObject) -> None:
    """Texts become data: `stringData` is for writing only."""
    _check_encoding("Secret", secret.get("data") or {})
    texts = secret.pop("stringData", None) or {}
    if texts:
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _check_encoding(kind: str, data: JsonObject) -> None:
    """Refuse data that is not base64, as a server that cannot read it. Raises 400."""
    for text in data.values():
        if isinstance(text, str) and (place := _fault_of_encoding(text)) is not None:
            why = f"illegal base64 data at input byte {place}"
            raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {why}')


def _fault_of_encoding(text: str) -> int | None:
    """Where base64 stops being that; None if it is right to the end."""
    good = _BASE64.match(text)
    end = good.end() if good is not None else 0
    if end < len(text):
        return end
    return None if len(re.sub(r"[\r\n]", "", text)) % 4 == 0 else len(text)


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
    complete=_complete_config_map,
    faults=_config_map_faults,
    change_faults=_frozen,
    limits_own_size=True,
    columns=(NAME, Column("Data", count("data", "binaryData")), AGE),
)

SECRET = KindSpec(
    *("", "v1", "secrets", "Secret"),
    defaults={"type": "Opaque"},
    complete=_complete_secret,
    faults=_secret_faults,
    change_faults=_frozen,
    fixed=("type",),
    limits_own_size=True,
    field_labels={**OF_METADATA, **labels_at("type")},
    columns=(NAME, Column("Type", field_cell("type", "Opaque")), Column("Data", count("data")), AGE),
)

SERVICE_ACCOUNT = KindSpec(
    *("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",)),
    subresources=("token",),
    returns_deleted=True,
    columns=(NAME, Column("Secrets", count("secrets")), AGE),
)
