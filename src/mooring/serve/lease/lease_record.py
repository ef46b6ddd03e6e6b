"""What a Lease says about who leads, and the Lease to write next.

No time of a Lease is ever compared with a clock: clocks of two machines differ. `leader_election.py` only asks whether a
record has changed.
"""

import msgspec

from mooring.api.json_objects import JsonObject

API_VERSION = "coordination.k8s.io/v1"


class LeaseName(msgspec.Struct, frozen=True):
    """Which Lease the instances compete for, and its paths at the API server."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def collection(self) -> str:
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class _Lease(msgspec.Struct):
    spec: _LeaseSpec | None = None


class LeaseRecord(msgspec.Struct, frozen=True):
    """The spec of a Lease. Times are texts as the Lease has them: people read them, and only a change of them matters."""

    holder: str = ""
    duration_s: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0
    strategy: str = ""
    """How the API server picks leaders (coordinated leader election); empty: it does not."""
    preferred_holder: str = ""
    """Who is to lead next: the holder lets the lease expire."""

    @classmethod
    def of(cls, lease: object) -> "LeaseRecord":
        """The record in a Lease as the API server returns it. Raises ValueError for something else."""
        spec = msgspec.convert(lease, _Lease).spec or _LeaseSpec()
        return cls(
            spec.holder_identity or "",
            spec.lease_duration_seconds or 0,
            spec.acquire_time or "",
            spec.renew_time or "",
            spec.lease_transitions or 0,
            spec.strategy or "",
            spec.preferred_holder or "",
        )

    def spec(self) -> JsonObject:
        """The spec of the Lease with this record."""
        coordination = {"strategy": self.strategy, "preferredHolder": self.preferred_holder}
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_s,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.transitions,
            **{name: text for name, text in coordination.items() if text},
        }


def new_lease(name: LeaseName, record: LeaseRecord) -> JsonObject:
    metadata = {"name": name.name, "namespace": name.namespace}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": record.spec()}


def changed_lease(lease: JsonObject, record: LeaseRecord) -> JsonObject:
    """The lease with another record. It keeps its resourceVersion, so the API server refuses it if another instance has
    written the lease since."""
    return {**lease, "apiVersion": API_VERSION, "kind": "Lease", "spec": record.spec()}
