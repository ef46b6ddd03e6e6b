"""The kinds that the embedded server serves, by the ways in which clients name them."""

from mooring.model.kind_spec import POSTED, KindSpec
from mooring.model.kinds import SPECS

REQUESTS: tuple[KindSpec, ...] = tuple(spec for spec in SPECS if spec.verbs == POSTED)
"""Kinds that are posted and answered, but never kept."""

RESOURCES: dict[tuple[str, str, str], KindSpec] = {
    (spec.group, spec.version, spec.plural): spec for spec in SPECS if spec.verbs != POSTED
}
"""Kinds that are kept, by group, version and plural name."""

BY_KIND: dict[tuple[str, str], KindSpec] = {(spec.api_version, spec.kind): spec for spec in RESOURCES.values()}
"""By apiVersion and kind."""
