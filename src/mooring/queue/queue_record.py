"""The knowledge of a queue about pods that wait, as an object among others: a snapshot carries it, so that answers can
say when a backoff or a wait on Permit ends."""

from typing import Any

import msgspec

from mooring.framework.config.settings import API_VERSION
from mooring.model.meta import Wire

KIND = "QueueRecord"
ON_PERMIT = "permit"
"""The place of a pod that has room on a node and waits for Permit plugins."""


class PermitRecord(Wire):
    """A Permit plugin that a pod waits for."""

    plugin: str
    until: str = ""
    """When the wait ends with a rejection, in RFC 3339."""


class WaitingPodRecord(Wire):
    """A pod without a node, as the scheduler knew it."""

    pod: str
    """`namespace/name`."""
    place: str = ""
    """active, backoff, unschedulable or gated; ON_PERMIT for a pod that has room on `node`; empty while it is attempted."""
    attempts: int = 0
    backoff_until: str = ""
    """In RFC 3339, for a pod in backoff."""
    node: str = ""
    permits: tuple[PermitRecord, ...] = ()


class QueueRecord(Wire):
    """The pods that waited when the snapshot was taken."""

    taken_at: str = ""
    """In RFC 3339."""
    pods: tuple[WaitingPodRecord, ...] = ()

    def of(self, key: str) -> WaitingPodRecord | None:
        """The record of a pod; None if it did not wait."""
        return next((each for each in self.pods if each.pod == key), None)


def record_object(record: QueueRecord) -> dict[str, Any]:
    """The record to be written into a snapshot."""
    return {"apiVersion": API_VERSION, "kind": KIND, **msgspec.to_builtins(record)}


def is_record(kind: str, api_version: str) -> bool:
    """Whether an object of a snapshot is such a record."""
    return (kind, api_version) == (KIND, API_VERSION)


def read_record(written: dict[str, Any]) -> QueueRecord | None:
    """None for an object that has another form: the caller reports it with its place in the file."""
    try:
        return msgspec.convert(written, QueueRecord)
    except msgspec.ValidationError:
        return None
