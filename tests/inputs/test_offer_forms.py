"""Offers in the forms that people have: NodePools, instance types, node groups and lists of prices."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.answers.plan.offers import NodeOffer, read_all_offers
from mooring.api.api_errors import ApiError
from mooring.inputs.input_errors import InputError
from mooring.inputs.live_clusters import list_offers
from mooring.inputs.loaded_cluster import load
from mooring.inputs.offers.autoscaler_offers import PoolRequirement
from mooring.inputs.offers.offer_files import read_offer_sources

Json = dict[str, Any]
ZONE, CAPACITY = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
SELECTS = {"nodeSelector": {ZONE: "a", CAPACITY: "spot"}}
"""A pod with this spec tells zones and capacity types apart."""


def a_type(name: str = "m5.large", cpu: str = "2", price: float = 0.1, **changed: Any) -> Json:
    """An instance type in the older form of the kwok provider."""
    offering = {"CapacityType": "on-demand", "Zone": "a", "Price": price, "Available": True}
    resources = {"cpu": cpu, "memory": "8Gi"}
    plain = {"name": name, "offerings": [offering], "architecture": "amd64", "operatingSystems": {"linux": {}}}
    return {**plain, "resources": resources, **changed}


def requirement(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": [*values]}


def a_pool(*requirements: Json, name: str = "default", metadata: Any = None, inside: Any = None, **spec: Any) -> Json:
    template = {"metadata": metadata or {}, "spec": {"requirements": [*requirements], **(inside or {})}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def a_node(name: str, **labels: str) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}
    kind = {"node.kubernetes.io/instance-type": labels.pop("type")} if "type" in labels else {}
    named = {key.replace("__", "/").replace("_", "."): text for key, text in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**named, **kind}},
        "status": status,
    }


def a_pod(**spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def read(*offered: Any, cluster: Any = ()) -> tuple[list[NodeOffer], list[str]]:
    return read_all_offers([*offered], load([a_node("there"), a_pod(**SELECTS), *cluster]))


def written(folder: Path, name: str, content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    (folder / name).write_text(text)
    return str(folder / name)


def test_both_forms_of_the_kwok_provider_give_the_same_offers(tmp_path: Path) -> None:
    newer = a_type(operatingSystems=["linux"])
    newer["offerings"] = [
        {"Price": 0.1, "Requirements": [requirement(CAPACITY, "In", "on-demand"), requirement(ZONE, "In", "a")]},
        {"Price": 0.03, "Available": False, "Requirements": [requirement(ZONE, "In", "b")]},
    ]
    (old,), (new,) = (read(written(tmp_path, f"{at}.json", [each]))[0] for at, each in enumerate([a_type(), newer]))
    assert old == new
    assert (old.name, old.price, old.limit) == ("m5.large-a-on-demand", 0.1, 100_000)
    assert old.template.status.allocatable == {"cpu": "1900m", "memory": str((8 << 30) - (10 << 20)), "pods": "110"}
    assert {key: old.template.labels[key] for key in (ZONE, CAPACITY, "kubernetes.io/arch", "kubernetes.io/os")} == {
        ZONE: "a",
        CAPACITY: "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    assert old.template.labels["karpenter.k8s.aws/instance-generation"] == "5"


def test_a_table_has_a_row_for_each_offering(tmp_path: Path) -> None:
    heads = "instanceType,zone,capacityType,price,cpu,memory,nvidia.com/gpu"
    text = f"{heads}\ng.1,a,spot,0.2,8,32Gi,1\ng.1,b,spot,0.3,8,32Gi,1\n"
    offers, _ = read(written(tmp_path, "types.csv", text))
    assert [(offer.name, offer.price) for offer in offers] == [("g.1-a-spot", 0.2), ("g.1-b-spot", 0.3)]
    assert (offers[0].template.status.allocatable or {})["nvidia.com/gpu"] == "1"
    with pytest.raises(InputError, match=r'types\.csv:2: price: Invalid value: "much": must be a number from 0'):
        read(written(tmp_path, "types.csv", "name,price,cpu\nx,much,4\n"))


@pytest.mark.parametrize("heads", ["name,price,cpu", "InstanceType,MarketPriceHourly", "instance_type,price"])
def test_a_table_without_rows_offers_nothing(tmp_path: Path, heads: str) -> None:
    sources = read_offer_sources([written(tmp_path, "table.csv", f"{heads}\n")])
    assert (sources.types, sources.prices, sources.own, sources.problems) == ([], [], [], [])


def test_labels_that_no_object_names_do_not_make_offers_of_their_own() -> None:
    places = [
        {"CapacityType": kind, "Zone": zone, "Price": price} for zone in "ab" for kind, price in (("spot", 1), ("x", 2))
    ]
    alone = read_all_offers([a_type(offerings=places)], load([a_node("there")]))[0]
    assert [(offer.name, offer.price) for offer in alone] == [("m5.large-a-spot", 1)]
    assert len(read(a_type(offerings=places))[0]) == 4


@pytest.mark.parametrize(
    ("operator", "values", "allowed"),
    [
        ("In", ["4", "5"], {"5"}),
        ("NotIn", ["4"], {"5", "x", None}),
        ("Exists", [], {"5", "x"}),
        ("DoesNotExist", [], {None}),
        ("Gt", ["4"], {"5"}),
        ("Lt", ["6"], {"5"}),
        ("Gte", ["5"], {"5"}),
        ("Lte", ["4"], set()),
    ],
)
def test_operators_of_requirements(operator: str, values: list[str], allowed: set[str | None]) -> None:
    rule = PoolRequirement("k", operator, tuple(values))
    assert {text for text in ("5", "x", None) if rule.allows(text)} == allowed


def test_a_pool_chooses_types_and_says_what_its_nodes_have() -> None:
    pool = a_pool(
        requirement("karpenter.k8s.aws/instance-family", "In", "m5"),
        requirement(CAPACITY, "NotIn", "spot"),
        requirement("team", "In", "web"),
        metadata={"labels": {"tier": "front"}, "annotations": {"note": "x"}},
        inside={
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "starting", "effect": "NoExecute"}],
        },
    )
    (offer,), notes = read(pool, a_type(), a_type("c5.large"), a_type("m5.xlarge", cpu="4", offerings=[]))
    assert (offer.name, notes) == ("default-m5.large-a-on-demand", [])
    assert {key: offer.template.labels[key] for key in ("team", "tier", "karpenter.sh/nodepool")} == {
        "team": "web",
        "tier": "front",
        "karpenter.sh/nodepool": "default",
    }
    assert [taint.key for taint in offer.template.taints] == ["dedicated"], "startup taints go away"


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param("a", {"default-m5.large-a-spot": 1.0}, id="one zone"),
        pytest.param("ab", {"default-m5.large-a-spot": 1.0, "default-m5.large-b-spot": 2.0}, id="two zones"),
        pytest.param("ac", {"default-m5.large-a-spot": 1.0}, id="a zone that no type is sold in"),
    ],
)
def test_a_pool_asks_for_zones_that_offerings_have_and_each_keeps_its_price(
    zones: str, expected: dict[str, float]
) -> None:
    places = [{"CapacityType": "spot", "Zone": zone, "Price": price} for zone, price in (("a", 1.0), ("b", 2.0))]
    offers, notes = read(a_pool(requirement(ZONE, "In", *zones)), a_type(offerings=places))
    assert {offer.name: offer.price for offer in offers} == expected
    assert {offer.name.split("-")[2] for offer in offers} == {offer.template.labels[ZONE] for offer in offers}
    assert (len(offers), notes) == (len(expected), [])


def test_a_pool_asks_for_families_and_each_type_keeps_its_own() -> None:
    family = "karpenter.k8s.aws/instance-family"
    types = a_type("m5.large"), a_type("c5.large", "4"), a_type("r5.large", "8")
    offers, notes = read(a_pool(requirement(family, "In", "m5", "c5")), *types)
    assert {offer.name: offer.template.labels[family] for offer in offers} == {
        "default-m5.large-a-on-demand": "m5",
        "default-c5.large-a-on-demand": "c5",
    }
    assert (len(offers), notes) == (2, [])


def test_limits_of_a_pool_leave_what_its_nodes_do_not_have_yet() -> None:
    pool, types = a_pool(limits={"cpu": "20", "nodes": "30"}), a_type(cpu="4")
    here = a_node("here", karpenter_sh__nodepool="default", type="m5.large")
    here["status"]["capacity"] = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    claim = {
        "kind": "NodeClaim",
        "metadata": {"labels": {"karpenter.sh/nodepool": "default"}},
        "status": {"capacity": {"cpu": "8"}},
    }
    assert [offer.limit for offer in read(pool, types, claim, cluster=[here])[0]] == [2], "(20 - 4 - 8) / 4"
    known = {**pool, "status": {"resources": {"cpu": "16", "nodes": "29"}}}
    assert [offer.limit for offer in read(known, types, cluster=[here])[0]] == [1]


def test_types_and_prices_of_a_pool_may_come_from_the_cluster_and_from_opencost(tmp_path: Path) -> None:
    labels = {"type": "m5.large", "topology_kubernetes_io__zone": "a"}
    prices = (
        "EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version\n"
        ",m5.large,,node,metadata.labels.node.kubernetes.io/instance-type,,0.25,\n,standard,,pv,spec.storageClassName,,9,\n"
    )
    (offer,), _ = read(a_pool(), written(tmp_path, "p.csv", prices), cluster=[a_node("here", **labels)])
    assert (offer.name, offer.price) == ("default-m5.large-a", 0.25)
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, "pool.yaml", a_pool()), cluster=[a_node("here", **labels)])
    told = "no price; add a CSV with the column MarketPriceHourly, or the annotation mooring.dev/price"
    assert str(caught.value) == f"{tmp_path}/pool.yaml: NodePool default, instance type m5.large: {told}"


def test_node_groups_of_cluster_autoscaler_have_a_node_as_template(tmp_path: Path) -> None:
    flags = ["./cluster-autoscaler", "--nodes=1:10:workers", "--nodes=0:3:projects/x/instanceGroups/gpu"]
    containers = [{"name": "c", "command": flags}]
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": containers}}}}
    gpu = a_node("template")
    gpu["metadata"]["annotations"] = {"cluster-autoscaler.kwok.nodegroup/name": "gpu", "mooring.dev/price": "2"}
    own = a_node("own", mooring_dev__price="1")
    own["metadata"]["annotations"] = {"cluster-autoscaler.kwok.nodegroup/max-count": "5"}
    worker = a_node("w-1", eks_amazonaws_com__nodegroup="workers", mooring_dev__price="0.5")
    file = written(tmp_path, "ca.json", {"kind": "List", "items": [deployment, gpu, own]})
    offers, _ = read(file, cluster=[worker])
    assert [(offer.name, offer.price, offer.limit) for offer in offers] == [
        ("workers", 0.5, 9),
        ("gpu", 2, 3),
        ("own", 1, 5),
    ]
    with pytest.raises(InputError, match=r"ca\.json: --nodes \(workers\): no node has this name"):
        read(file)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            [a_type(offerings=[{"Price": "free"}])],
            '[0].offerings[0].price: Invalid value: "free": must be a number from 0',
        ),
        (
            [a_type(resources={"cpu": "many"})],
            '[0].resources[cpu]: Invalid value: "many": must be a quantity, such as 16',
        ),
        (a_pool(requirement("k", "Near", "x")), 'operator: Unsupported value: "Near": supported values: In, NotIn'),
        (a_pool(weight=1000), "NodePool default: spec.weight: Invalid value: 1000: must be from 1 to 100"),
        (a_pool(limits={"cpu": "lots"}), 'spec.limits[cpu]: Invalid value: "lots": must be a quantity'),
        ("[1, 2", "column "),
        (
            "name;price;cpu;memory\nm5;0,1;4;16Gi\n",
            "the columns of a table must be separated by commas, and fractions written with a point",
        ),
    ],
    ids=["a price", "a quantity", "an operator", "a weight", "a limit", "broken text", "a table with semicolons"],
)
def test_problems_name_file_line_and_field(tmp_path: Path, content: Any, told: str) -> None:
    file = written(tmp_path, "f.json" if not isinstance(content, str) else "f.yaml", content)
    with pytest.raises(InputError) as caught:
        read(file)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{file}:") and told in line
    assert int(line.removeprefix(f"{file}:").partition(":")[0]) >= 1


def test_prices_alone_are_no_offers(tmp_path: Path) -> None:
    file = tmp_path / "opencost.csv"
    file.write_text("InstanceType,InstanceIDField,InstanceID,MarketPriceHourly\ngeneral,metadata.name,n-1,0.5\n")
    with pytest.raises(InputError, match="^there are prices, but no offers that they are for: add a file with offers"):
        read(str(file))


def test_a_pool_that_allows_nothing_is_said() -> None:
    offers, notes = read(a_pool(requirement("kubernetes.io/arch", "In", "riscv")), a_type())
    assert (offers, notes) == ([], ["NodePool default allows none of 1 instance type"])


def test_kinds_that_a_live_server_does_not_show_are_said_once() -> None:
    class Server:
        async def get_bytes(self, path: str, params: dict[str, str] | None = None) -> bytes:
            if path == "/apis/karpenter.sh/v1beta1/nodepools":
                more = {"continue": "x"} if "continue" not in (params or {}) else {}
                return json.dumps({"metadata": more, "items": [{"metadata": {"name": f"p{len(more)}"}}]}).encode()
            raise ApiError(403 if "nodeclaims" in path else 404, "", "no")

    objects, notes = asyncio.run(list_offers(Server()))
    assert [(item["kind"], item["metadata"]["name"]) for item in objects] == [("NodePool", "p1"), ("NodePool", "p0")]
    assert notes == ["you may not list nodeclaims.karpenter.sh: none are offered"]
