"""Prices of nodes from YAML, OpenCost's CSV and instance types of Karpenter: which price a node has."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.inputs.input_errors import InputError
from mooring.inputs.offers.offer_files import asked_prices, prices_in, read_prices
from mooring.inputs.offers.price_list import PROVIDER_ID, PricedNode, PriceList, PriceRow

TYPE, ZONE, REGION = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
CAPACITY = "karpenter.sh/capacity-type"
HEADS = "EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version\n"
OPENCOST = HEADS + (
    "2026-01-01,,,node,,m5.large,0.1,\n"
    "2026-01-01,,eu-west-1,node,,m5.large,0.12,\n"
    "2026-01-01,i-0abc,,node,spec.providerID,,0.05,\n"
    "2026-01-01,gold,,node,metadata.labels.tier,,0.9,\n"
    "2026-01-01,n-7,,node,metadata.name,,0.7,\n"
    "2026-01-01,standard,,pv,spec.storageClassName,,9,\n"
)


def a_node(name: str = "n", provider_id: str = "", **labels: str) -> PricedNode:
    keys = {"type": TYPE, "zone": ZONE, "region": REGION, "capacity": CAPACITY}
    return PricedNode(name, {keys.get(key, key): value for key, value in labels.items()}, provider_id)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("node", "price"),
    [
        (a_node(type="m5.large", region="us-east-1"), 0.1),
        (a_node(type="m5.large", region="EU-West-1"), 0.12),
        (a_node(type="m5.large"), 0.12),
        (a_node(provider_id="aws:///eu-1a/i-0abc"), 0.05),
        (a_node(provider_id="aws:///eu-1a/xi-0abc"), None),
        (a_node(tier="gold"), 0.9),
        (a_node("n-7"), 0.7),
        (a_node("standard"), None),
    ],
    ids=[
        "by type",
        "a region goes before all",
        "a node without a region may be of any",
        "by the end of the provider ID",
        "not by half of a name",
        "by a label",
        "by name",
        "volumes are not nodes",
    ],
)
def test_the_price_of_a_node_in_the_csv_of_opencost(node: PricedNode, price: float | None, tmp_path: Path) -> None:
    assert read_prices(written(tmp_path, "prices.csv", OPENCOST)).price(node) == price


def test_the_price_of_a_node_in_instance_types_of_karpenter(tmp_path: Path) -> None:
    offerings = [
        {"CapacityType": kind, "Zone": zone, "Price": price, "Available": True}
        for kind, zone, price in (("on-demand", "a", 0.4), ("spot", "a", 0.15), ("spot", "b", 0.2))
    ]
    entry = {"name": "m5.xlarge", "architecture": "amd64", "operatingSystems": {"linux": {}}}
    types = [{**entry, "offerings": offerings, "resources": {"cpu": "4", "memory": "16Gi"}}]
    prices = read_prices(written(tmp_path, "types.json", json.dumps(types)))
    assert prices.price(a_node(type="m5.xlarge", zone="a", capacity="spot")) == 0.15
    assert prices.price(a_node(type="m5.xlarge", zone="b", capacity="spot")) == 0.2
    assert prices.price(a_node(type="m5.xlarge", zone="a")) == 0.4, "a node that Karpenter did not make is on demand"
    assert prices.price(a_node(type="m5.xlarge", zone="c", capacity="spot")) is None
    assert prices.price(a_node(type="m5.large", zone="a")) is None


def test_a_name_or_type_of_a_yaml_file_goes_before_all(tmp_path: Path) -> None:
    prices = read_prices(written(tmp_path, "prices.yaml", "n-7: 1\nm5.large: 2\n"))
    assert [prices.price(a_node(name, type="m5.large")) for name in ("n-7", "n-8")] == [1, 2]
    assert read_prices(written(tmp_path, "prices.json", '{"prices": {"m5.large": 2}}')).by_name == {"m5.large": 2}


def test_a_compressed_file_of_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml.gz"
    file.write_bytes(gzip.compress(b"a: 1\n"))
    assert read_prices(str(file)).by_name == {"a": 1}


def test_a_price_that_is_no_number_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "prices.csv", HEADS + ",,,node,,m5.large,cheap,\n")
    with pytest.raises(InputError) as caught:
        read_prices(path)
    assert str(caught.value) == f'{path}:2: MarketPriceHourly: Invalid value: "cheap": must be a number from 0'


def test_money_is_shown_with_its_unit() -> None:
    assert asked_prices(None) is None
    euros = prices_in("EUR an hour", {"a": 1})
    assert [euros.show(each) for each in (0, 0.096, 12.3456, 999.9, 12345.6)] == [
        "0 EUR",
        "0.096 EUR",
        "12.35 EUR",
        "999.9 EUR",
        "12,346 EUR",
    ]
    assert prices_in("", None).show(0.5) == "0.5"


FEW = st.sampled_from(["", "x", "y"])
ROWS = st.builds(
    PriceRow,
    st.sampled_from([0.1, 0.2, 0.3]),
    FEW,
    st.sampled_from(["", PROVIDER_ID, "metadata.labels.tier", "metadata.name"]),
    FEW,
    FEW,
    st.dictionaries(st.sampled_from([ZONE, CAPACITY]), st.sampled_from(["x", "y", "on-demand"]), max_size=2),
)
LABELS = st.dictionaries(st.sampled_from([TYPE, ZONE, REGION, CAPACITY, "tier"]), st.sampled_from("xy"), max_size=5)
NODES = st.builds(PricedNode, st.sampled_from("xyz"), LABELS, st.sampled_from(["", "x", "aws:///y/x", "x/y"]))


@given(st.lists(ROWS, max_size=8), NODES)
def test_the_index_finds_what_a_plain_loop_over_all_rows_finds(rows: list[PriceRow], node: PricedNode) -> None:
    fitting = [row for row in rows if row.fits(node)]
    best = min(((not row.region, not row.value) for row in fitting), default=None)
    prices = {row.price for row in fitting if (not row.region, not row.value) == best}
    found = PriceList(rows=rows).price(node)
    assert (found in prices) if prices else (found is None)
