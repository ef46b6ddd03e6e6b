"""The parts that all kinds share: object metadata, owner references and label selectors as they are written."""

import msgspec
from msgspec import field

MIN_INT32, MAX_INT32 = -(1 << 31), (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1


def int32(value: int) -> int:
    """An integer of the API in the range that Go declares for it.

    JSON has integers of any size, and a server need not be one that refuses them. Whoever computes with one takes it
    through here: products and sums of such numbers fit the columns. Validation sees it as it is written.
    """
    return value if MIN_INT32 <= value <= MAX_INT32 else (MIN_INT32 if value < 0 else MAX_INT32)


def int64(value: int) -> int:
    """The same for the few fields that Go declares with 64 bits."""
    return max(-MAX_INT64 - 1, min(value, MAX_INT64))


class Wire(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A piece of a Kubernetes object: the fields that a scheduler reads; all others are skipped when decoding."""


class OwnerReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire):
    name: str = ""
    generate_name: str | None = None
    namespace: str = ""
    uid: str = ""
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Requirement(Wire):
    """One line of matchExpressions or matchFields, in label and node selectors alike."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class KubeObject(Wire):
    """What has metadata."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for kinds without namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.metadata.owner_references or () if owner.controller), None)
