"""The resources that a scheduler watches, in all namespaces (the kinds whose specs say so), and the advice for operators if
a server does not show one of them.
"""

from collections.abc import Mapping

import msgspec

from mooring.api import kinds
from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec, Watch
from mooring.model.meta import KubeObject


class Watched(msgspec.Struct, frozen=True):
    """One resource: its URL, and the struct of its objects."""

    group: str
    version: str
    plural: str
    struct: type[KubeObject]
    field_selector: str = ""
    is_required: bool = False
    """Whether the scheduler cannot work without it. Any other resource counts as empty while the server rejects it."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/{self.version}/{self.plural}"

    @property
    def name(self) -> str:
        """The name in messages and in RBAC: `pods`, `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _watched(spec: KindSpec, watch: Watch) -> Watched:
    return Watched(spec.group, spec.version, spec.plural, spec.struct, watch.field_selector, watch.is_required)


_ALL = sorted(kinds.WATCHED.items(), key=lambda entry: not entry[1].is_required)


def watched_with(gates: Mapping[str, bool]) -> tuple[Watched, ...]:
    """What a scheduler with these feature gates watches, the required resources first. A gate that is not named is off."""
    return tuple(_watched(spec, watch) for spec, watch in _ALL if watch.is_on(gates))


WATCHED: tuple[Watched, ...] = watched_with({})
"""What every scheduler watches."""


# ---- resources that a server does not show


def is_definite(fault: Exception) -> bool:
    """Whether a retry soon is useless: the server does not serve the resource, or does not allow access to it."""
    return isinstance(fault, ApiError) and fault.code in (403, 404)


def advice(watched: Watched, fault: ApiError) -> str:
    """One paragraph for the operator: what the server rejects, what follows from it, and how to change it."""
    remedy = _grant(watched) if fault.code == 403 else _serving(watched)
    return f"Failed to watch {watched.name}: {fault.message} ({fault.code}). {_consequence(watched)} {remedy}"


def _consequence(watched: Watched) -> str:
    if watched.is_required:
        return "The scheduler cannot schedule without it."
    return "Until that changes, the scheduler continues as if there were none, and tries again every minute."


def _grant(watched: Watched) -> str:
    rule = f'{{apiGroups: ["{watched.group}"], resources: ["{watched.plural}"], verbs: ["get", "list", "watch"]}}'
    return f"Add this rule to the ClusterRole of the scheduler: {rule}"


def _serving(watched: Watched) -> str:
    if not watched.group:
        return "Check that the server's address is that of a Kubernetes API server."
    return (
        f"The server does not serve {watched.api_version}: "
        f"kubectl api-resources --api-group={watched.group} shows what it does serve."
    )
