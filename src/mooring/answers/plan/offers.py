"""Offers: kinds of nodes that can be added, with a price; read from a small YAML file.

A list, or the same under `offers:`. Each entry has a template of its nodes, or names a node of the cluster to copy:

    - name: m-large        # new nodes are named m-large-1, m-large-2, ...
      price: 0.41          # for one node, in any unit
      limit: 20            # the most nodes of it; the default is as many as it takes
      node:                # as in a manifest, without a name: labels, taints, allocatable or capacity
        metadata: {labels: {topology.kubernetes.io/zone: a}}
        spec: {taints: [{key: dedicated, value: batch, effect: NoSchedule}]}
        status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110"}}
    - name: more
      price: 0.2
      like: node-7         # labels, taints, amounts, devices and DaemonSet pods of a node that is there

`inputs/offers` reads the other forms that people have: NodePools, instance types, node groups and lists of prices.

The module also knows which labels of nodes the objects of a cluster name: nodes that differ in others only are alike to all
of its pods.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import msgspec

from mooring.answers.trial.changing_nodes import equipment_of, equipped, node_like
from mooring.api.decode import decode_as
from mooring.api.validate import validate
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems, show
from mooring.controllers.nodes.simulated_nodes import DEVICES, slices_of
from mooring.inputs.admission import Admission
from mooring.inputs.documents import ManifestFile
from mooring.inputs.field_checks import Validation, check_core_fields, unknown_fields
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import on_lines
from mooring.inputs.loaded_cluster import LoadedCluster, Source, Written
from mooring.inputs.offers.instance_types import ARCH, OS, OfferedNode, PoolLimits
from mooring.inputs.offers.offer_files import read_offer_sources
from mooring.kit.words import alike
from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject, Wire
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, StorageClass
from mooring.model.workloads import Workload

ALWAYS = (ARCH, OS)
"""Labels that count although no pod names them: images are built for them."""


def labels_in_use(objects: Sequence[KubeObject]) -> set[str]:
    """The keys of node labels that pods, workloads, volumes and storage classes name: in node selectors and affinity, and as
    topologies."""
    found = {*ALWAYS}
    shapes: set[int] = set()
    for item in objects:
        if isinstance(item, Pod):
            if id(item.shape) not in shapes:
                shapes.add(id(item.shape))
                found.update(_keys(msgspec.to_builtins(item.spec)))
        elif isinstance(item, Workload | PersistentVolume | StorageClass):
            found.update(_keys(msgspec.to_builtins(item)))
    return found


def _keys(written: Any) -> Iterator[str]:
    """All keys below a value, however deep: of `nodeSelector`, of expressions with an operator, and topology keys. Keys of
    pod labels among them do no harm."""
    if isinstance(written, list):
        for each in written:
            yield from _keys(each)
    elif isinstance(written, Mapping):
        for name, value in written.items():
            if name == "nodeSelector" and isinstance(value, Mapping):
                yield from value
            elif name in ("key", "topologyKey") and isinstance(value, str):
                yield value
            else:
                yield from _keys(value)


def useful_labels(offered: Sequence[OfferedNode], objects: Sequence[KubeObject]) -> list[OfferedNode]:
    """The cheapest of the offers that are alike in everything but labels which no object names."""
    used = labels_in_use(objects)
    best: dict[tuple[Any, ...], OfferedNode] = {}
    for each in offered:
        labels = tuple(sorted((key, text) for key, text in each.labels.items() if key in used))
        taints = tuple(str(sorted(taint.items())) for taint in each.taints)
        amounts = tuple(sorted(each.allocatable.items()))
        key = labels, taints, amounts, each.limit, each.pool.name if each.pool is not None else None
        held = best.get(key)
        if held is None or (each.price or 0) < (held.price or 0):
            best[key] = each
    return [*best.values()]


MAX_OFFERS = 500
MAX_LIMIT = 100_000
"""How many nodes of one offer a plan may have."""
_NO_OFFER = "there is no offer in it; write at least one"
_ONLY_PRICES = "there are prices, but no offers that they are for: add a file with offers, NodePools or node groups"
_FORM = "a list of offers, or one under `offers:`"

Offered = Source | Written | Sequence[Source | Written]
"""A file of offers, or its content as plain data; or several of them, NodePools and other objects included."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A kind of node that can be added."""

    name: str
    price: float
    limit: int
    """The most nodes of it."""
    template: Node = field(repr=False)
    like: str = ""
    """The node of the cluster that it copies."""
    equipment: Sequence[KubeObject] = field(default=(), repr=False)
    """The CSI drivers and the devices of that node."""
    pool: PoolLimits | None = field(default=None, repr=False)
    """The pool that has the node, if its limits count for several offers together."""

    def node(self, name: str) -> list[KubeObject]:
        """A new node of this name, and what comes with it."""
        node = node_like(self.template, name)
        written = msgspec.to_builtins(node) if DEVICES in (node.metadata.annotations or {}) else None
        slices = [msgspec.convert(each, ResourceSlice) for each in slices_of(written)] if written is not None else []
        return [node, *slices, *(equipped(item, name) for item in self.equipment)]


# ---- reading


class OfferEntry(Wire):
    """One entry of the file; the module says what each field means."""

    name: str = ""
    price: float | None = None
    limit: int | None = None
    node: dict[str, Any] | None = None
    like: str = ""


def read_offers(offered: Offered, loaded: LoadedCluster, validation: Validation = Validation.STRICT) -> list[NodeOffer]:
    """The offers of files or of plain data. Raises InputError with all problems, those of a file with their lines."""
    return read_all_offers(offered, loaded, validation)[0]


def read_all_offers(
    offered: Offered, loaded: LoadedCluster, validation: Validation = Validation.STRICT
) -> tuple[list[NodeOffer], list[str]]:
    """The offers, and notes about how they were read. Raises InputError with all problems, with the lines of files."""
    if _is_own(offered):
        return _offers(_listed(offered), loaded, validation), []
    sources = read_offer_sources([offered] if isinstance(offered, str | os.PathLike | Mapping) else [*offered])
    found: list[NodeOffer] = []
    reader = _OfferReader(loaded, validation)
    for file, written in sources.own:
        with _placed(file, sources.problems):
            found += _offers(_listed(written), loaded, validation, reader)
    nodes = [item for item in loaded.objects if isinstance(item, Node)]
    others = sources.offered(nodes) if not sources.problems else []
    if not sources.problems:
        found += reader.accept(useful_labels(others, [*loaded.objects, *loaded.workloads]))
    if sources.problems or reader.problems:
        raise InputError([*sources.problems, *reader.problems])
    if not found and not sources.notes:
        raise InputError([Problem("", _ONLY_PRICES if sources.prices else _NO_OFFER)])
    return found, sources.notes


def _is_own(offered: Offered) -> bool:
    """Whether plain data are offers of Mooring's own form."""
    if isinstance(offered, str | os.PathLike):
        return False
    entries = [*offered] if isinstance(offered, list | tuple) else [offered]
    return not any(
        isinstance(each, str | os.PathLike) or (isinstance(each, Mapping) and {"kind", "offerings"} & {*each})
        for each in entries
    )


@contextmanager
def _placed(file: ManifestFile | None, problems: list[Problem]) -> Iterator[None]:
    """Note the problems of a file with their lines."""
    try:
        yield
    except InputError as error:
        problems += error.problems if file is None else on_lines(file, error.problems, "offers")


def _listed(written: Any) -> list[Any]:
    if isinstance(written, Mapping) and set(written) == {"offers"}:
        written = written["offers"]
    if not isinstance(written, list | tuple):
        raise InputError([Problem("", show(written), _FORM)])
    if not written:
        raise InputError([Problem("", _NO_OFFER)])
    if len(written) > MAX_OFFERS:
        raise InputError([Problem("", f"{len(written)} offers; write at most {MAX_OFFERS}")])
    return list(written)


def _offers(
    listed: Sequence[Any], loaded: LoadedCluster, validation: Validation, reader: "_OfferReader | None" = None
) -> list[NodeOffer]:
    """Raises InputError with the problems of all entries."""
    reader = reader or _OfferReader(loaded, validation)
    offers = [reader.read(entry, f"offers[{i}]") for i, entry in enumerate(listed)]
    if reader.problems:
        problems, reader.problems = reader.problems, []
        raise InputError(problems)
    return [offer for offer in offers if offer is not None]


class _OfferReader:
    """Turns entries into offers and collects their problems."""

    def __init__(self, loaded: LoadedCluster, validation: Validation) -> None:
        self._objects = loaded.objects
        self._nodes = {item.name: item for item in loaded.objects if isinstance(item, Node)}
        self._admission = Admission.of(loaded.objects)
        self._validation = validation
        self._names: set[str] = set()
        self.problems: list[Problem] = []

    def read(self, written: Any, path: str) -> NodeOffer | None:
        """None if the entry has a problem."""
        before = len(self.problems)
        if not isinstance(written, Mapping):
            self.problems.append(Problem(path, show(written), "an object with `name`, `price` and `node` or `like`"))
            return None
        self.problems += unknown_fields(written, OfferEntry, path)
        entry, mismatches = decode_as(OfferEntry, dict(written))
        self.problems += [problem.under(path) for problem in mismatches]
        if entry is None or mismatches:
            return None
        self.problems += self._check(entry, path)
        template = self._template(entry, path)
        if len(self.problems) > before or template is None or entry.price is None:
            return None
        limit = MAX_LIMIT if entry.limit is None else entry.limit
        equipment = [*equipment_of(entry.like, self._objects)] if entry.like else []
        return NodeOffer(entry.name, entry.price, limit, template, entry.like, equipment)

    def accept(self, offered: Sequence[OfferedNode]) -> list[NodeOffer]:
        """Nodes that others offer, checked like manifests."""
        found: list[NodeOffer] = []
        for each in offered:
            node, problems = decode_as(Node, each.manifest())
            if node is not None and not problems:
                node.metadata.name = each.name
                self._admission.admit(node)
                problems += [*validate(node), *_check_amounts(node)]
            if each.name in self._names:
                problems.append(Problem("", f"{show(each.name)} names another offer too; write another name"))
            if not each.price:
                problems.append(Problem("price", show(each.price), "a number above 0"))
            self._names.add(each.name)
            self.problems += [problem.at(each.where, each.file) for problem in problems[:1]]
            if node is not None and not problems and each.price:
                limit = MAX_LIMIT if each.limit is None else min(each.limit, MAX_LIMIT)
                found.append(NodeOffer(each.name, each.price, limit, node, pool=each.pool))
        return found

    def _check(self, entry: OfferEntry, path: str) -> Problems:
        if not entry.name:
            yield Problem(f"{path}.name", NOTHING_THERE, "a name of its own")
        elif entry.name in self._names:
            yield Problem(f"{path}.name", f"{show(entry.name)} names another offer too; write another name")
        self._names.add(entry.name)
        if entry.price is None:
            yield Problem(f"{path}.price", NOTHING_THERE, "a number: what one node costs")
        elif not (isfinite(entry.price) and 0 < entry.price <= 1e12):
            yield Problem(f"{path}.price", show(entry.price), "a number above 0")
        if entry.limit is not None and not 0 <= entry.limit <= MAX_LIMIT:
            yield Problem(f"{path}.limit", show(entry.limit), f"from 0 to {MAX_LIMIT}")

    def _template(self, entry: OfferEntry, path: str) -> Node | None:
        if (entry.node is None) == (not entry.like):
            self.problems.append(Problem(path, "`node` or `like`, and not both: write one of them"))
            return None
        if entry.node is not None:
            return self._written_node(entry, entry.node, f"{path}.node")
        node = self._nodes.get(entry.like)
        if node is None:
            known = (
                f"no node {show(entry.like)} among {len(self._nodes)} nodes{alike(entry.like, [*self._nodes.values()])}"
            )
            self.problems.append(Problem(f"{path}.like", known))
        return node

    def _written_node(self, entry: OfferEntry, written: dict[str, Any], path: str) -> Node | None:
        """A Node as in a manifest; it gets the name of the offer, as the API server asks for one."""
        node, problems = decode_as(Node, written)
        if self._validation is Validation.STRICT:
            problems += check_core_fields("Node", written)
        if node is not None and not problems:
            node.metadata.name = entry.name or "offer"
            self._admission.admit(node)
            problems += [*validate(node), *_check_amounts(node)]
        named = "metadata.name"  # it is the name of the offer
        self.problems += [
            replace(problem, path=path.replace(".node", ".name")) if problem.path == named else problem.under(path)
            for problem in problems
        ]
        return node


def _check_amounts(node: Node) -> Problems:
    if not node.status.allocatable:
        yield Problem("status.allocatable", NOTHING_THERE, "what pods can use: cpu, memory, pods, ...")
    elif "pods" not in node.status.allocatable:
        yield Problem("status.allocatable", "it has no `pods`, so that no pod would fit; write how many may run there")
