"""Reads prices of nodes from what people have: YAML by instance type or name, OpenCost's CSV, instance types of Karpenter."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.inputs.documents import ManifestFile, gather, is_json
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Source
from mooring.inputs.offers.instance_types import is_price
from mooring.inputs.offers.offer_files import MAX_BYTES, OfferSources, csv_rows, read_offer_file
from mooring.inputs.offers.price_list import PriceList, PriceRow, offering_rows
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document

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
