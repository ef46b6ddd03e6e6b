"""The targets of changes: nodes by name or by selector, and objects as KIND/[NAMESPACE/]NAME."""

from collections.abc import Iterable, Sequence
from typing import NoReturn

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.workload_book import WorkloadName
from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import KINDS, WORKLOADS, node_name
from mooring.api.selector_text import parse_label_selector
from mooring.api.validation.problem import Problem, show
from mooring.inputs.input_errors import InputError
from mooring.kit.words import alike, some
from mooring.model.meta import KubeObject

_OPERATORS = frozenset("=!,()<> ")
"""A node name has none of these characters, and a selector has at least one."""


def reject(clause: str) -> NoReturn:
    """Raises InputError: the change cannot be made. `question.py` adds which change it is."""
    raise InputError([Problem("", clause)])


def is_selector(target: str) -> bool:
    return not _OPERATORS.isdisjoint(target)


def nodes_of(cluster: ChangingCluster, target: str) -> list[str]:
    """The names of the nodes that a target means, sorted. Raises InputError if there is none."""
    nodes = cluster.nodes()
    if not is_selector(target):
        target = node_name(target)
        if target in nodes:
            return [target]
        reject(f"no node {show(target)} among {len(nodes)} nodes{alike(target, [*nodes.values()])}")
    try:
        selector = parse_label_selector(target)
    except ApiError as fault:
        reject(f"{show(target)} is no label selector: {fault.message}")
    found = sorted(name for name, node in nodes.items() if selector.matches(node.labels))
    if not found:
        reject(f"no node has the labels {show(target)}; `kubectl get nodes --show-labels` lists what they have")
    return found


def kind_of(written: str) -> KindSpec:
    """The kind by name, plural or short name, in any case, as kubectl takes it. Raises InputError."""
    specs = {spec.kind: spec for spec in (*WORKLOADS.values(), *KINDS.values())}
    found = next((spec for spec in specs.values() if spec.is_called(written)), None)
    if found is not None:
        return found
    reject(f"no kind {show(written)}; the kinds are {', '.join(sorted(specs))}")


def object_name(cluster: ChangingCluster, written: str) -> WorkloadName:
    """Kind and key of the one object that `KIND/[NAMESPACE/]NAME` means. Raises InputError."""
    kind, slash, rest = written.partition("/")
    if not slash or not rest:
        reject(f"{show(written)} must be KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/shop/web")
    spec = kind_of(kind)
    known = _known(cluster, spec.kind)
    found = [item for item in known if rest in (item.key, item.name)]
    if not found:
        reject(f"no {spec.kind} {show(rest)} in the cluster{alike(rest, known)}")
    if len(found) > 1:
        reject(f"{show(rest)} could be any of {some([item.key for item in found], 5)}: add the namespace")
    return WorkloadName(spec.kind, found[0].key)


def _known(cluster: ChangingCluster, kind: str) -> Sequence[KubeObject]:
    """All objects of a kind. Some workloads are kept as objects too."""
    items: Iterable[KubeObject] = (each for name, each in cluster.book.workloads.items() if name.kind == kind)
    kept = (item for (held, _), item in cluster.driver.objects.items() if held == kind)
    return [*{item.key: item for item in (*items, *kept)}.values()]


def split_number(written: str, form: str, most: int) -> tuple[str, int]:
    """`NAME=N` as its parts. Raises InputError."""
    name, sign, number = written.rpartition("=")
    if not sign or not name:
        reject(f"{show(written)} must be {form}")
    return name, whole(number, most)


def whole(written: str, most: int) -> int:
    """A whole number from 0 to `most`. Raises InputError."""
    if not (written.isascii() and written.isdigit()) or len(written) > 12 or int(written) > most:
        reject(f"{show(written)} must be a whole number from 0 to {most}")
    return int(written)
