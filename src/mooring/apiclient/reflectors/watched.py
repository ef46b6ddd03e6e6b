"""What a scheduler watches, in all namespaces: the kinds whose specs say so."""

from dataclasses import dataclass

from mooring.model import kinds
from mooring.model.kind_spec import KindSpec, Watch
from mooring.model.meta import KubeObject


@dataclass(frozen=True, slots=True)
class Watched:
    """One resource: where it is served, and the struct that its objects are read into."""

    group: str
    version: str
    plural: str
    struct: type[KubeObject]
    field_selector: str = ""
    is_required: bool = False
    """Whether nothing can be scheduled without it. All others are taken for empty while a server refuses them."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/{self.version}/{self.plural}"

    @property
    def name(self) -> str:
        """As people and RBAC call it: `pods`, `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _watched(spec: KindSpec, watch: Watch) -> Watched:
    return Watched(spec.group, spec.version, spec.plural, spec.struct, watch.field_selector, watch.is_required)


_ALL = sorted(kinds.WATCHED.items(), key=lambda entry: not entry[1].is_required)

WATCHED: tuple[Watched, ...] = tuple(_watched(spec, watch) for spec, watch in _ALL if not watch.needs_groups)
"""What every scheduler watches, beginning with what is required.

Later: devicetaintrules, which kube-scheduler watches behind a feature gate that is off by default.
"""

WATCHED_FOR_GROUPS: tuple[Watched, ...] = tuple(_watched(spec, watch) for spec, watch in _ALL if watch.needs_groups)
"""What a scheduler watches besides where it schedules pod groups together."""
