"""The kinds that Mooring knows: all `KindSpec`s of the modules in this package, and the tables that are derived from them.

A new kind is a spec at the top level of a module here, in the module of its family or in a new one. No other file names
it: this package imports all its modules and collects their specs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from mooring.api.kind_spec import POSTED, KindSpec, OtherForm, Watch
from mooring.api.validation.problem import Problem, show
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload

_GROUPS = (
    *("", "apps", "batch", "policy", "scheduling.k8s.io", "node.k8s.io", "coordination.k8s.io", "events.k8s.io"),
    *("storage.k8s.io", "resource.k8s.io", "rbac.authorization.k8s.io", "networking.k8s.io", "autoscaling"),
    *("discovery.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
)
"""The order in which discovery lists the groups: kubectl takes the first group that has a resource of a given name. Other
groups follow."""


def _written() -> Iterator[KindSpec]:
    """All specs, by module in alphabetical order, so that the order does not depend on the file system."""
    for module in sorted(found.name for found in iter_modules(__path__)):
        values = vars(import_module(f"{__name__}.{module}")).values()
        yield from (value for value in values if isinstance(value, KindSpec))


def _rank(spec: KindSpec) -> tuple[int, str]:
    return (_GROUPS.index(spec.group), "") if spec.group in _GROUPS else (len(_GROUPS), spec.group)


SPECS: tuple[KindSpec, ...] = tuple(sorted(dict.fromkeys(_written()), key=_rank))
"""All kinds, group by group."""


def _by_kind(specs: Iterable[KindSpec]) -> Mapping[str, KindSpec]:
    return {spec.kind: spec for spec in specs}


KINDS = _by_kind(spec for spec in SPECS if spec.is_typed and spec.struct is not Workload)
"""Typed kinds by name: their objects are kept as they are, and plugins can look them up."""

WORKLOADS = _by_kind(spec for spec in SPECS if spec.makes_pods)
"""Kinds that a simulation creates pods from. Three of them are also in KINDS, because the scheduler reads their selectors."""

BY_STRUCT: Mapping[type[KubeObject], KindSpec] = {spec.struct: spec for spec in KINDS.values()}
"""The kinds of KINDS by the struct of their objects."""

WATCHED: Mapping[KindSpec, Watch] = {spec: spec.watch for spec in KINDS.values() if spec.watch is not None}
"""The kinds that the scheduler watches, and how."""

# ---- what the embedded API server serves

REQUESTS: tuple[KindSpec, ...] = tuple(spec for spec in SPECS if spec.verbs == POSTED)
"""Kinds that clients post and the server answers, but never stores: reviews and bindings."""

RESOURCES: Mapping[tuple[str, str, str], KindSpec] = {
    (served.group, served.version, served.plural): served
    for spec in SPECS
    if spec.verbs != POSTED
    for served in (
        spec,
        *(replace(spec.in_version(version), stored_version=spec.api_version) for version in spec.served_too),
    )
}
"""Kinds that the server stores, by group, version and plural name: the parts of a URL. Several versions of a kind show the
same objects."""

BY_KIND: Mapping[tuple[str, str], KindSpec] = {(spec.api_version, spec.kind): spec for spec in RESOURCES.values()}
"""The stored kinds by apiVersion and kind, as manifests and owner references name them."""

# ---- what manifests may name

_UNSERVED: Mapping[str, frozenset[str]] = {
    "v1": frozenset({"ComponentStatus", "PodTemplate", "Status"}),
    "apps/v1": frozenset(),
    "batch/v1": frozenset(),
    "policy/v1": frozenset({"Eviction"}),
}
"""Groups whose kinds are all known, with the kinds that have no spec. Any other kind of these groups is a typing error."""


def kind_of(name: str) -> KindSpec | None:
    return KINDS.get(name) or WORKLOADS.get(name)


def kind_problem(name: str, api_version: str) -> Problem | None:
    """Why a manifest with this kind and apiVersion is a mistake; None for known kinds and for custom resources."""
    kind = kind_of(name)
    if kind is not None:
        if api_version in kind.api_versions or is_foreign(api_version):
            return None
        return Problem("apiVersion", show(api_version), " or ".join(kind.api_versions))
    alike = next((known for known in (*KINDS, *WORKLOADS) if known.casefold() == name.casefold()), None)
    if alike is not None:
        return Problem("kind", show(name), alike)
    if api_version in _UNSERVED and name not in _kinds_in(api_version):
        return Problem("kind", show(name), f"one of the kinds of {api_version}: {', '.join(_kinds_in(api_version))}")
    return None


def is_read(name: str, api_version: str) -> bool:
    """Whether objects of this kind can change a decision. A kind of the same name in another group (a custom Service, for
    instance) cannot."""
    kind = kind_of(name)
    return kind is not None and (api_version in kind.api_versions or not is_foreign(api_version))


def other_form(name: str, api_version: str) -> OtherForm | None:
    """The form of objects of this kind and apiVersion, if it is not that of the typed object."""
    kind = kind_of(name)
    return kind.other_forms.get(api_version) if kind is not None else None


def is_foreign(api_version: str) -> bool:
    """Whether the group is not one of Kubernetes itself: `serving.knative.dev/v1`, but not `extensions/v1beta1`."""
    group, slash, _ = api_version.partition("/")
    return bool(slash) and "." in group and not group.endswith(".k8s.io")


def _kinds_in(api_version: str) -> list[str]:
    return sorted({spec.kind for spec in SPECS if api_version in spec.api_versions} | _UNSERVED[api_version])


# ---- names of objects as users write them: `[KIND/][NAMESPACE/]NAME`, with KIND in all forms that kubectl takes and prints
#
# `kubectl get -o name` prints `pod/cart-0` and `deployment.apps/cart`; users also write `po/cart-0`, `deploy/cart`.
# A namespace may have the name of a kind: then the kind wins, and `pod/NAMESPACE/NAME` names the pod.


def split_kind(written: str, kinds: Iterable[KindSpec]) -> tuple[KindSpec | None, str]:
    """The kind of `KIND/[NAMESPACE/]NAME`, if it is one of `kinds`, and the rest; None and all of it for any other text."""
    kind, _, rest = written.partition("/")
    found = next((spec for spec in kinds if spec.is_called(kind)), None) if rest else None
    return (None, written) if found is None else (found, rest)


def pod_name(written: str) -> str:
    """`[NAMESPACE/]NAME` of a pod that may be written with its kind: `pod/cart-0`, `po/shop/cart-0`."""
    return split_kind(written, (KINDS["Pod"],))[1]


def other_kind(written: str) -> str:
    """For the end of a message that there is no such pod: that the text names an object of another kind; empty if not."""
    kind, _ = split_kind(written, (*WORKLOADS.values(), *KINDS.values()))
    return f"; it names a {kind.kind}: name a pod" if kind is not None and kind is not KINDS["Pod"] else ""


def node_name(written: str) -> str:
    """The name of a node that may be written with its kind: `node/n-1`, `no/n-1`."""
    return split_kind(written, (KINDS["Node"],))[1]
