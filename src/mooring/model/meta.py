"""The parts that all kinds share: object metadata, owner references, conditions, and label selectors as written.

Structs of the model hold only the fields that a scheduler reads. msgspec skips all others when it decodes, which makes
decoding fast and objects small. What has to keep unknown fields works on plain JSON (`api/json_objects.py`).
"""

import msgspec
from msgspec import field

MIN_INT32, MAX_INT32 = -(1 << 31), (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
"""The ranges of Go's int32 and int64, with which upstream declares nearly all integers of the API."""


def int32(value: int) -> int:
    """An integer of the API, clamped to the range that Go declares for the field.

    JSON integers have any size, and not every server rejects what does not fit. Code that computes with such a field
    clamps it here first, so that products and sums fit the columns. Validation reads the field as it is written.
    """
    return value if MIN_INT32 <= value <= MAX_INT32 else (MIN_INT32 if value < 0 else MAX_INT32)


def int64(value: int) -> int:
    """`int32` for the few fields that Go declares with 64 bits."""
    return max(-MAX_INT64 - 1, min(value, MAX_INT64))


class Wire(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The base of all structs: camelCase names in JSON, and default values are left out when encoding, as in Go.

    Hot: what is decoded from JSON is in no reference cycle, so the garbage collector need not know of it. Of 5,000 nodes
    and 5,000 pods it tracks 20,000 objects instead of 55,000; each is 16 bytes smaller, and a pod from the list to the
    confirmation of its bind takes some 5,000 instructions less. msgspec demands `gc=True` of structs with a `__dict__`,
    but leaves them untracked all the same if their fields are. So the values that a struct keeps in its `__dict__` must
    not refer back to it, or neither would ever be freed.
    """


class OwnerReference(Wire):
    """The owner of an object, by name and uid; deletion cascades along it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire):
    """The metadata that a scheduler reads. managedFields, often the largest part of an object, is skipped."""

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
    """One entry of matchExpressions or matchFields, in label and node selectors alike."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class Condition(Wire):
    """A condition in a status; pods, nodes, claims and pod groups share the form."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class KubeObject(Wire):
    """An API object. Kinds that cannot change a decision are read into this struct itself, without spec and status."""

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
        """The owner that controls this object (a ReplicaSet, say); the API server allows at most one."""
        for owner in self.metadata.owner_references or ():  # Hot: a generator takes twice as long
            if owner.controller:
                return owner
        return None
