"""Recognises what files and objects say about nodes that can be had, and puts it together into offered nodes.

Prices of nodes alone are read here too, from YAML by instance type or name, OpenCost's CSV, or instance types of Karpenter.
"""

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mooring.api.validation.problem import Problem, show
from mooring.inputs.documents import JsonFault, ManifestFile, gather, is_json, json_pieces
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import on_lines
from mooring.inputs.loaded_cluster import Source, Written
from mooring.inputs.offers.autoscaler_offers import (
    AutoscalerGroup,
    KarpenterPool,
    amounts_in_use,
    group_offers,
    node_groups,
    node_pool,
)
from mooring.inputs.offers.instance_types import (
    ARCH,
    CAPACITY_TYPE,
    CSV_NAMES,
    INSTANCE_TYPE,
    NODE_POOL,
    OS,
    PRICE,
    ZONE,
    InstanceOffering,
    InstanceType,
    OfferedNode,
    are_instance_types,
    csv_instance_types,
    instance_types,
    is_price,
    offer_name,
    price_of,
)
from mooring.inputs.offers.price_list import COLUMN, PricedNode, PriceList, PriceRow, offering_rows, price_rows
from mooring.kit.words import count
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document, read_documents
from mooring.model.node import Node

MAX_BYTES = 64 << 20
"""For all files together: 800 types with three zones and two capacity types have 5 MB in the form of the kwok provider."""
_TYPE_LABELS = (INSTANCE_TYPE, ARCH, OS)
_OFFERING_LABELS = (ZONE, CAPACITY_TYPE)


@dataclass(slots=True)
class OfferSources:
    """The content that was read, by form."""

    own: list[tuple[ManifestFile | None, Any]] = field(default_factory=list)
    """Documents in the form of Mooring's own offers, or in none that is known."""
    types: list[InstanceType] = field(default_factory=list)
    pools: list[KarpenterPool] = field(default_factory=list)
    claims: list[Mapping[str, Any]] = field(default_factory=list)
    groups: list[AutoscalerGroup] = field(default_factory=list)
    templates: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    prices: list[PriceRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def offered(self, nodes: Sequence[Node]) -> list[OfferedNode]:
        """The nodes that pools, groups and types offer, with their prices; problems and notes are added. `nodes` are those of
        the cluster: they show instance types if no file does, templates of groups, and what pools use."""
        is_asked = self.pools or self.groups or self.templates
        written = [msgspec.to_builtins(node) for node in nodes] if is_asked else []
        types = self.types or [*_types_of(written)]
        found: list[OfferedNode] = []
        if self.pools:
            used = amounts_in_use(self._in_use(written))
            for pool in self.pools:
                allowed = [*pool.offers(types, used.get(pool.name, {}), self.notes)]
                if not allowed:
                    self.notes.append(f"NodePool {pool.name} allows none of {count(len(types), 'instance type')}")
                found += allowed
        else:
            found += [*_offers_of(self.types)]
        found += group_offers(self.groups, self.templates, written, self.problems)
        return self._with_prices(found)

    def _in_use(self, nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The pool and the capacity of each node, and of each NodeClaim that has no node yet."""
        there = {node["metadata"].get("name") for node in nodes}
        named = [(node["metadata"].get("labels") or {}, node.get("status") or {}) for node in nodes]
        for claim in self.claims:
            status = claim.get("status") or {}
            if status.get("nodeName") not in there:
                named.append(((claim.get("metadata") or {}).get("labels") or {}, status))
        for labels, status in named:
            if pool := labels.get(NODE_POOL):
                yield pool, status.get("capacity") or {}

    def _with_prices(self, found: Sequence[OfferedNode]) -> list[OfferedNode]:
        """The offers with prices of the list where they have none of their own."""
        listed = PriceList(rows=self.prices)
        priced: list[OfferedNode] = []
        missing: dict[str, OfferedNode] = {}
        for offer in found:
            price = offer.price
            if price is None:
                price = listed.price(PricedNode(offer.name, offer.labels))
            if price is None:
                price = price_of(offer.annotations.get(PRICE) or offer.labels.get(PRICE))
            if price is None:
                missing.setdefault(offer.where, offer)
            else:
                priced.append(replace(offer, price=price))
        for where, offer in missing.items():
            told = f"no price; add a CSV with the column {COLUMN}, or the annotation {PRICE}"
            self.problems.append(Problem("", told, where=where, file=offer.file))
        return priced


def _types_of(nodes: Sequence[Mapping[str, Any]]) -> Iterator[InstanceType]:
    """The instance types of the nodes of a cluster, with the zones and capacity types in which it has them."""
    seen: dict[str, tuple[Mapping[str, Any], set[tuple[tuple[str, str], ...]]]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        if name := labels.get(INSTANCE_TYPE):
            place = tuple((key, labels[key]) for key in _OFFERING_LABELS if key in labels)
            seen.setdefault(name, (node, set()))[1].add(place)
    for name, (node, places) in seen.items():
        labels, status = node["metadata"]["labels"], node.get("status") or {}
        yield InstanceType(
            name,
            {key: labels[key] for key in _TYPE_LABELS if key in labels},
            status.get("capacity") or {},
            status.get("allocatable") or {},
            [InstanceOffering(dict(place), None) for place in sorted(places)],
            "the nodes of the cluster",
        )


def _offers_of(types: Sequence[InstanceType]) -> Iterator[OfferedNode]:
    """Types without a pool: each offering is a node."""
    for kind in types:
        for offering in kind.offerings:
            labels = {**kind.labels, **offering.labels}
            os_name = labels.get(OS, "")
            parts = (labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, ""), "" if os_name == "linux" else os_name)
            name = offer_name(kind.name, *parts)
            where = f"instance type {kind.name}"
            yield OfferedNode(
                name, offering.price, labels, kind.capacity, kind.allocatable, file=kind.file, where=where
            )


# ---- recognising


def read_offer_sources(offered: Sequence[Source | Written]) -> OfferSources:
    """Read files and objects, each in the form that its content shows. Problems are noted, not raised."""
    sources = OfferSources()
    paths = [os.fspath(each) for each in offered if isinstance(each, str | os.PathLike)]
    files, problems = gather(paths, None, MAX_BYTES)
    sources.problems += problems
    for file in files:
        read_offer_file(file, sources)
    for each in offered:
        if not isinstance(each, str | os.PathLike):
            _sort(dict(each), None, sources)
    return sources


def read_offer_file(file: ManifestFile, sources: OfferSources) -> None:
    """Add what a file says; its problems are noted."""
    if (rows := csv_rows(file)) is not None:
        heads = {name.strip() for name in rows[0][1]} if rows else set()
        if COLUMN in heads:
            sources.prices += price_rows(rows, file.name, sources.problems)
        else:
            sources.types += csv_instance_types(rows, file.name, sources.problems)
        return
    if csv_rows(replace(file, text=file.text.partition(b"\n")[0].replace(b";", b","))) is not None:
        told = "the columns of a table must be separated by commas, and fractions written with a point"
        sources.problems.append(Problem("", told, file=file.name, line=1))
        return
    try:
        if is_json(file):  # Hot: a list of 800 types takes 20 ms, and 20 s as YAML
            documents = [msgspec.json.decode(piece) for _, piece in json_pieces(file.text)]
        else:
            documents = [each for each in read_documents(file.text) if each is not None]
    except (JsonFault, YamlFault) as fault:
        sources.problems.append(Problem(f"column {fault.column}", str(fault), file=file.name, line=fault.line))
        return
    for document in documents:
        _sort(document, file, sources)


def csv_rows(file: ManifestFile) -> list[tuple[int, dict[str, str]]] | None:
    """The rows of a table of prices or types with their lines; None: the file is no such table."""
    try:
        text = file.text.decode()
    except UnicodeDecodeError:
        return None
    first = next(csv.reader(io.StringIO(text.partition("\n")[0])), [])
    heads = [name.strip().lower() for name in first]
    if COLUMN.lower() not in heads and not ("price" in heads and {*heads} & {*CSV_NAMES}):
        return None
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="")
    return [(reader.line_num, {str(name): cell for name, cell in row.items() if name is not None}) for row in reader]


def _sort(document: Any, file: ManifestFile | None, sources: OfferSources) -> None:
    """Put a document where it belongs."""
    name = file.name if file is not None else ""
    before = len(sources.problems)
    if are_instance_types(document):
        sources.types += instance_types(document, name, sources.problems)
    elif isinstance(document, Mapping) and "offerings" in document:
        sources.types += instance_types([document], name, sources.problems)
    elif isinstance(document, Mapping) and isinstance(document.get("kind"), str):
        _sort_object(document, name, sources)
    else:
        sources.own.append((file, document))
    if file is not None and len(sources.problems) > before:
        sources.problems[before:] = on_lines(file, sources.problems[before:])


def _sort_object(written: Mapping[str, Any], file: str, sources: OfferSources) -> None:
    """An object of the API. Kinds that say nothing about nodes are left out: a file may have many."""
    kind, items = written["kind"], written.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            if isinstance(item, Mapping):
                _sort_object({"kind": kind.removesuffix("List"), **item}, file, sources)
    elif kind == "NodePool":
        pool = node_pool(written, file, sources.problems)
        sources.pools += [pool] if pool is not None else []
    elif kind == "NodeClaim":
        sources.claims.append(written)
    elif kind == "Node":
        sources.templates.append((file, written))
    elif kind in ("Deployment", "Pod"):
        sources.groups += node_groups(written, file, sources.problems)


MAX_YAML_BYTES = 1 << 20
"""A megabyte of YAML takes a second; a table of prices for all regions of a cloud is CSV or JSON."""


def asked_prices(prices: Source | Mapping[str, float] | None) -> PriceList | None:
    """The prices of a file or a dictionary, if one is given. Raises InputError."""
    if prices is None:
        return None
    if isinstance(prices, str | os.PathLike):
        return read_prices(os.fspath(prices))
    return PriceList(prices_of(prices))


def prices_in(unit: str, prices: Source | Mapping[str, float] | None) -> PriceList:
    """The prices that are asked for, to be shown with their unit. Raises InputError."""
    return replace(asked_prices(prices) or PriceList(), unit=unit)


def read_prices(path: str) -> PriceList:
    """The prices of a file, in the form that its content shows. Raises InputError."""
    files, problems = gather([path], None, MAX_BYTES)
    by_name: dict[str, float] = {}
    rows: list[PriceRow] = []
    for file in files:
        if csv_rows(file) is None and not is_json(file):
            by_name |= prices_of(_yaml(file), file.name)
            continue
        sources = OfferSources()
        read_offer_file(file, sources)
        problems += sources.problems
        rows += [*sources.prices, *offering_rows(sources.types)]
        for _, written in sources.own:
            by_name |= prices_of(written, file.name)
    if problems:
        raise InputError(problems)
    return PriceList(by_name, rows)


def _yaml(file: ManifestFile) -> Any:
    if len(file.text) > MAX_YAML_BYTES:
        raise InputError([Problem("", "has more than 1 MiB; write prices by instance type", file=file.name)])
    try:
        return read_document(file.text, keep_last)
    except YamlFault as fault:
        raise InputError([Problem(f"column {fault.column}", str(fault), file=file.name, line=fault.line)]) from fault


def prices_of(written: Any, file: str = "") -> dict[str, float]:
    """Prices from plain data: by instance type or by name of a node; maybe under `prices`. Raises InputError."""
    if isinstance(written, dict) and isinstance(written.get("prices"), dict):
        written = written["prices"]
    if not isinstance(written, Mapping):
        form = "an object with a price an hour for each instance type"
        raise InputError([Problem("", show(written), form, file=file)])
    problems = [
        Problem(f"prices[{name}]", show(price), "a number from 0", file=file)
        for name, price in written.items()
        if not is_price(price)
    ]
    if problems:
        raise InputError(problems)
    return {str(name): float(price) for name, price in written.items()}
