"""Files that say which nodes can be had: what each field of them means, and what is said of fields that mean nothing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mooring.answers.plan.offers import NodeOffer, read_all_offers
from mooring.api.validation.problem import Problem
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import load
from mooring.inputs.offers.autoscaler_offers import PoolRequirement, amounts_in_use, node_groups, node_pool
from mooring.inputs.offers.instance_types import (
    PoolLimits,
    after_kubelet,
    amount_of,
    csv_instance_types,
    instance_types,
    offer_name,
    price_of,
    type_labels,
)
from mooring.inputs.offers.offer_files import asked_prices, read_offer_sources, read_prices
from mooring.inputs.offers.price_list import PricedNode

Json = dict[str, Any]
ARCH, OS, TYPE = "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"
ZONE, CAPACITY = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
KWOK_GROUP = "cluster-autoscaler.kwok.nodegroup"
BOUGHT = {"CapacityType": "on-demand", "Zone": "a", "Price": 0.1}


def a_type(name: object = "m5.large", **changed: Any) -> Json:
    return {"name": name, "offerings": [BOUGHT], "resources": {"cpu": "2", "memory": "8Gi"}, **changed}


def a_pool(*requirements: Any, **spec: Any) -> Json:
    inside = {"requirements": [*requirements], **spec.pop("inside", {})}
    return {
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {"template": {"spec": inside, "metadata": spec.pop("metadata", {})}, **spec},
    }


def a_node(node: str, status: Json | None = None, spec: Json | None = None, **annotations: str) -> Json:
    named = {
        f"{KWOK_GROUP}/{key.replace('_', '-')}" if key != "price" else "mooring.dev/price": text
        for key, text in annotations.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "annotations": named},
        "spec": spec or {},
        "status": status or {"capacity": {"cpu": "4", "memory": "8Gi"}},
    }


def in_list(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": [*values]}


def read(*offered: Any, cluster: Sequence[Json] = ()) -> list[NodeOffer]:
    asks = {"nodeSelector": dict.fromkeys((ZONE, CAPACITY, ARCH, OS, "tier", "team"), "x")}
    containers = [{"name": "c", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **asks}}
    return read_all_offers([*offered], load([a_node("there"), pod, *cluster]))[0]


def said(problems: Sequence[Problem]) -> list[str]:
    return [str(problem) for problem in problems]


def refusal(*offered: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(*offered)
    return str(caught.value).splitlines()


# ---- instance types


@pytest.mark.parametrize(
    ("name", "family", "size", "aws"),
    [
        ("m5.large", "m5", "large", {"family": "m5", "category": "m", "generation": "5", "size": "large"}),
        (
            "c7gn.12xlarge",
            "c7gn",
            "12xlarge",
            {"family": "c7gn", "category": "c", "generation": "7", "size": "12xlarge"},
        ),
        ("n1-standard-4", "n1", "16", None),
        ("plain", "p", "16", None),
        ("x.y", "x", "16", None),
    ],
)
def test_labels_follow_from_the_name_of_a_type(name: str, family: str, size: str, aws: Json | None) -> None:
    kwok = {"instance-family": family, "instance-size": size, "instance-cpu": "16", "instance-memory": "3Gi"}
    expected = {TYPE: name, **{f"karpenter.kwok.sh/{key}": text for key, text in kwok.items()}}
    for key, text in {**aws, "cpu": "16", "memory": "3072"}.items() if aws else ():
        expected[f"karpenter.k8s.aws/instance-{key}"] = text
    assert type_labels(name, {"cpu": "16", "memory": "3Gi"}) == expected


def test_labels_of_a_type_without_amounts() -> None:
    labels = type_labels("m5.large", {})
    assert {labels[f"{prefix}/instance-cpu"] for prefix in ("karpenter.kwok.sh", "karpenter.k8s.aws")} == {"0"}
    assert (labels["karpenter.kwok.sh/instance-memory"], labels["karpenter.k8s.aws/instance-memory"]) == ("0", "0")


def test_the_kubelet_takes_its_part_of_cpu_and_memory_and_nothing_of_the_rest() -> None:
    assert after_kubelet({"cpu": "50m", "memory": "11Mi", "gpu": "1"}) == {"cpu": "0m", "memory": "1048576", "gpu": "1"}
    assert after_kubelet({"cpu": "1"}) == {"cpu": "900m"}
    assert after_kubelet({"memory": "3Mi"}) == {"memory": "0"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (5, "f: [0]: Invalid value: 5: must be an object with name, offerings and resources"),
        (a_type(None), "f: [0].name: Invalid value: null: must be the name of a type"),
        (a_type(""), 'f: [0].name: Invalid value: "": must be the name of a type'),
        (a_type(7), "f: [0].name: Invalid value: 7: must be the name of a type"),
        (a_type(offerings="all"), 'f: [0].offerings: Invalid value: "all": must be a list'),
        (
            a_type(offerings=[BOUGHT, 3]),
            "f: [0].offerings[1]: Invalid value: 3: must be an object with a price",
        ),
        (
            a_type(resources=None),
            "f: [0].resources: Invalid value: null: must be an object with a quantity for each resource",
        ),
        (
            a_type(resources={"cpu": True}),
            "f: [0].resources[cpu]: Invalid value: true: must be a quantity, such as 16 or 64Gi",
        ),
        (a_type(operatingsystems="linux"), 'f: [0].operatingSystems: Invalid value: "linux": must be a list of names'),
        (
            a_type(requirements=[{"key": "tier"}]),
            "f: [0].requirements[0]: Invalid value: an object: must be an object with key, operator and values",
        ),
        (
            a_type(offerings=[{**BOUGHT, "requirements": "x"}]),
            'f: [0].offerings[0].requirements[0]: Invalid value: "x": must be an object with key, operator and values',
        ),
        (
            a_type(requirements=[in_list("a", *"12345"), in_list("b", *map(str, range(13)))]),
            "f: [0].requirements: 65 combinations of values; write at most 64",
        ),
    ],
)
def test_a_type_that_says_nothing_is_a_problem(entry: Any, told: str) -> None:
    problems: list[Problem] = []
    instance_types([entry], "f", problems)
    assert said(problems) == [told]


def test_requirements_with_values_are_labels_in_every_combination() -> None:
    problems: list[Problem] = []
    asks = [
        in_list("a", "1", "2"),
        in_list("b", *map(str, range(32))),
        {"key": "c", "operator": "NotIn", "values": ["x"]},
    ]
    kinds = instance_types([a_type(requirements=[*asks, in_list("d")])], "f", problems)
    assert problems == []
    assert {(kind.labels["a"], kind.labels["b"]) for kind in kinds} == {(a, str(b)) for a in "12" for b in range(32)}
    assert len(kinds) == 64 and not {"c", "d"} & kinds[0].labels.keys()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("amd64", "linux")]),
        ({"operatingsystems": []}, [("amd64", "linux")]),
        ({"operatingsystems": {}, "architecture": "arm64"}, [("arm64", "linux")]),
        ({"operatingSystems": ["linux", "windows"]}, [("amd64", "linux"), ("amd64", "windows")]),
        ({"operatingSystems": {"windows": {}}}, [("amd64", "windows")]),
    ],
)
def test_a_type_runs_on_linux_and_amd64_unless_it_says_otherwise(fields: Json, expected: list[tuple[str, str]]) -> None:
    problems: list[Problem] = []
    kinds = instance_types([a_type(**fields)], "", problems)
    assert [(kind.labels[ARCH], kind.labels[OS]) for kind in kinds] == expected
    assert problems == [] and kinds[0].capacity == {"pods": "110", "cpu": "2", "memory": "8Gi"}


def test_names_of_offers_tell_operating_systems_apart() -> None:
    offers = read(
        a_type("x", operatingsystems=["linux", "windows"], offerings=[{"price": 1}, {**BOUGHT, "Available": False}])
    )
    assert [offer.name for offer in offers] == ["x", "x-windows"]


def test_a_table_of_types() -> None:
    problems: list[Problem] = []
    plain = {"name": "t", "price": "1", "cpu": " 4 ", "gpu": "", " os ": "", "arch": "", "zone": "a"}
    rows = [
        (2, plain),
        (3, {**plain, "zone": "b", "price": "2"}),
        (4, {**plain, "arch": "arm64", " os ": "windows", "capacity_type": "spot"}),
        (5, {**plain, "name": ""}),
        (6, {**plain, "cpu": "lots", "price": "-1"}),
        (7, {"instance_type": "u", "price": "0", "capacityType": "spot"}),
    ]
    kinds = csv_instance_types(rows, "f", problems)
    found = [
        (kind.name, kind.labels[ARCH], kind.labels[OS], [({**place.labels}, place.price) for place in kind.offerings])
        for kind in kinds
    ]
    assert found == [
        ("t", "amd64", "linux", [({ZONE: "a"}, 1), ({ZONE: "b"}, 2)]),
        ("t", "arm64", "windows", [({ZONE: "a", CAPACITY: "spot"}, 1)]),
        ("u", "amd64", "linux", [({CAPACITY: "spot"}, 0)]),
    ]
    assert [{**kind.capacity} for kind in kinds] == [
        {"pods": "110", "cpu": "4"},
        {"pods": "110", "cpu": "4"},
        {"pods": "110"},
    ]
    assert {kind.file for kind in kinds} == {"f"}
    assert said(problems) == [
        'f:5: name: Invalid value: "": must be the name of a type',
        'f:6: cpu: Invalid value: "lots": must be a quantity, such as 16 or 64Gi',
        'f:6: price: Invalid value: "-1": must be a number from 0',
    ]


# ---- NodePools


@pytest.mark.parametrize(
    ("operator", "texts"),
    [
        ("Gt", ["6"]),
        ("Lt", ["4"]),
        ("Gte", ["5", "6"]),
        ("Lte", ["4", "5"]),
        ("In", ["5"]),
        ("NotIn", ["4", "6", "x", None]),
    ],
)
def test_a_requirement_compares_numbers_with_its_bound(operator: str, texts: list[str | None]) -> None:
    rule = PoolRequirement("k", operator, ("5",))
    assert [text for text in ("4", "5", "6", "x", None) if rule.allows(text)] == texts


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ({"kind": "NodePool"}, "f: NodePool: metadata.name: Invalid value: null: must be the name of the pool"),
        (a_pool(inside={"taints": "all"}), 'spec.template.spec.taints: Invalid value: "all": must be a list of taints'),
        (
            a_pool(inside={"taints": ["all"]}),
            "spec.template.spec.taints: Invalid value: a list: must be a list of taints",
        ),
        (a_pool(weight=101), "spec.weight: Invalid value: 101: must be from 1 to 100"),
        (a_pool(weight=-1), "spec.weight: Invalid value: -1: must be from 1 to 100"),
        (a_pool(weight="high"), 'spec.weight: Invalid value: "high": must be from 1 to 100'),
        (a_pool(5), "spec.template.spec.requirements[0].key: Invalid value: null: must be a label"),
        (a_pool({"key": ""}), 'spec.template.spec.requirements[0].key: Invalid value: "": must be a label'),
        (
            a_pool(in_list("a", "b"), in_list("k")),
            "spec.template.spec.requirements[1].values: Invalid value: a list: must be a list with at least one value",
        ),
        (
            a_pool({**in_list("k"), "values": "x"}),
            'spec.template.spec.requirements[0].values: Invalid value: "x": must be a list with at least one value',
        ),
        (
            {**a_pool(), "status": {"resources": {"cpu": "lots"}}},
            'status.resources[cpu]: Invalid value: "lots": must be a quantity',
        ),
    ],
)
def test_a_pool_that_says_nothing_is_a_problem(pool: Json, told: str) -> None:
    problems: list[Problem] = []
    assert node_pool(pool, "f", problems) is None
    assert said(problems) == [told if told.startswith("f: ") else f"f: NodePool pool: {told}"]


def test_a_pool_as_it_is_written() -> None:
    problems: list[Problem] = []
    rules = [in_list("one", "x"), in_list("two", "x", "y"), {"key": "no", "operator": "NotIn", "values": ["x"]}]
    rules += [{"key": "absent", "operator": "DoesNotExist"}, {"key": "there", "operator": "Exists", "values": None}]
    taint = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    own = {"labels": {"tier": 1}, "annotations": {"mooring.dev/price": 2}}
    pool = node_pool(a_pool(*rules, weight=100, inside={"taints": [taint]}, metadata=own), "f", problems)
    assert pool is not None and problems == []
    assert (pool.labels, pool.annotations) == ({"tier": "1", "one": "x"}, {"mooring.dev/price": "2"})
    assert [rule.key for rule in pool.requirements] == ["one", "two", "no", "absent", "there"]
    assert (pool.taints, pool.weight, pool.file, pool.used, pool.limits) == ([taint], 100, "f", None, {})
    plain = node_pool(a_pool(), "f", problems)
    assert plain is not None and plain.weight == 0


def test_values_that_no_type_says_make_offers_of_their_own_up_to_a_bound() -> None:
    notes: list[str] = []
    problems: list[Problem] = []
    pool = node_pool(a_pool(in_list("team", *map(str, range(70))), in_list(ARCH, "amd64"), weight=3), "", problems)
    kinds = instance_types([a_type()], "types", problems)
    assert pool is not None
    offers = [*pool.offers(kinds, {}, notes)]
    assert [offer.name for offer in offers[:2]] == ["pool-m5.large-a-on-demand-0", "pool-m5.large-a-on-demand-1"]
    assert len(offers) == 64 and offers[0].file == "types" and offers[0].labels["team"] == "0"
    assert offers[0].pool == PoolLimits("pool", {}, 3)
    assert notes == [f"NodePool pool: no instance type says team: its nodes have {' or '.join(map(str, range(70)))}"]
    assert [*pool.offers([], {}, notes)] == [] and len(notes) == 1


def test_the_price_of_a_pool_may_be_an_annotation_of_its_nodes() -> None:
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3", "pods": "9"}}
    here = {**a_node("here", status), "metadata": {"name": "here", "labels": {TYPE: "m5.large"}}}
    pool = a_pool(metadata={"annotations": {"mooring.dev/price": "0.5"}})
    (offer,) = read(pool, cluster=[here])
    assert (offer.name, offer.price, offer.template.status.capacity) == ("pool-m5.large", 0.5, {"cpu": "4"})


def test_amounts_of_a_pool_are_those_of_its_nodes_together() -> None:
    nodes: list[tuple[str, Json]] = [
        ("a", {"cpu": "2", "memory": "1Ki"}),
        ("b", {"cpu": "1"}),
        ("a", {"cpu": "500m", "gpu": "odd"}),
    ]
    assert amounts_in_use(nodes) == {
        "a": {"nodes": 2, "cpu": 2500, "memory": 1024, "gpu": 0},
        "b": {"nodes": 1, "cpu": 1000},
    }


@pytest.mark.parametrize(
    ("left", "nodes"),
    [
        ({}, None),
        ({"nodes": 3}, 3),
        ({"cpu": 9000}, 2),
        ({"cpu": 9000, "nodes": 1}, 1),
        ({"gpu": 0}, None),
        ({"memory": 0}, 0),
    ],
)
def test_how_many_nodes_a_limit_leaves(left: Json, nodes: int | None) -> None:
    assert PoolLimits("p", left).nodes({"cpu": "4", "memory": "8Gi"}) == nodes


# ---- node groups


def a_deployment(*args: str) -> Json:
    return {
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [{"args": [*args]}, "odd", {"command": 3}]}}},
    }


def test_groups_are_named_by_flags_of_containers() -> None:
    problems: list[Problem] = []
    flags = ["--nodes=1:1:one", "--nodes", "0:5:zones/x/two/", "--nodes=3:2:less", "--nodes=many"]
    groups = node_groups(a_deployment(*flags), "f", problems)
    assert [(group.name, group.most) for group in groups] == [("one", 1)]
    assert said(problems) == [
        f'f: --nodes: Invalid value: "{text}": must be MIN:MAX:NAME' for text in ("3:2:less", "many")
    ]
    pod = {"kind": "Pod", "spec": {"containers": [{"command": ["run", "--nodes=0:5:zones/x/two/"]}]}}
    assert [(group.name, group.most) for group in node_groups(pod, "f", problems)] == [("two", 5)]
    odd: list[Json] = [{}, {"spec": 1}, {"spec": {}}, {"spec": {"containers": 2}}]
    assert [group for each in odd for group in node_groups(each, "f", problems)] == []


def test_a_template_of_a_group_is_a_node_as_it_is() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    both = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3", "memory": "7Gi", "pods": "30"}}
    template = {**a_node("a", both, {"taints": [taint]}, price="1", max_count="7"), "spec": {"taints": [taint]}}
    template["metadata"]["labels"] = {"tier": "db", "kubernetes.io/hostname": "a"}
    allocatable = a_node("b", {"allocatable": {"cpu": "3", "memory": "7Gi"}}, price="1")
    (first, second, third) = read(template, allocatable, a_node("c", price="1", max_count="-3"))
    assert (first.name, first.limit, second.limit, third.limit) == ("a", 7, 100_000, 100_000)
    assert [(taint.key, taint.value) for taint in first.template.taints] == [("dedicated", "db")]
    assert first.template.labels.get("tier") == "db" and "kubernetes.io/hostname" not in first.template.labels
    assert (first.template.status.capacity, first.template.status.allocatable) == (
        both["capacity"],
        both["allocatable"],
    )
    assert second.template.status.capacity == {"cpu": "3", "memory": "7Gi"}
    assert second.template.status.allocatable == {"cpu": "3", "memory": "7Gi", "pods": "110"}
    assert third.template.status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}


def test_nodes_that_a_group_has_already_count() -> None:
    named = a_node("w", name="workers", price="1", max_count="4")
    here = [a_node(f"here-{i}", name="workers") for i in range(3)]
    assert [(offer.name, offer.limit) for offer in read(named, cluster=here)] == [("workers", 1)]
    offers = read(named, a_deployment("--nodes=0:9:workers"), cluster=here)
    assert [(offer.name, offer.limit) for offer in offers] == [("workers", 6)]
    assert refusal(a_node("free")) == [
        "node group free: no price; add a CSV with the column MarketPriceHourly, or the annotation mooring.dev/price"
    ]


# ---- documents


def test_lists_of_objects_are_read_object_by_object() -> None:
    pool, node = a_pool(), {key: value for key, value in a_node("n").items() if key != "kind"}
    sources = read_offer_sources(
        [
            {"kind": "NodePoolList", "items": [pool, 5]},
            {"kind": "NodeList", "items": [node]},
            {"kind": "NodeClaim", "items": [node]},
            {"kind": "ServiceList"},
            {"kind": "Service"},
            {"offerings": [BOUGHT], "name": "t", "resources": {}},
        ]
    )
    assert [each.name for each in sources.pools] == ["pool"] and [kind.name for kind in sources.types] == ["t"]
    assert [written["metadata"]["name"] for _, written in sources.templates] == ["n"]
    assert (len(sources.claims), sources.own, sources.problems) == (1, [], [])


def test_documents_of_yaml_and_their_faults(tmp_path: Path) -> None:
    good, broken = tmp_path / "good.yaml", tmp_path / "broken.json"
    good.write_text(f"---\n---\n{json.dumps([a_type()])}\n")
    broken.write_text('[{"name": "x",\n "offerings": }]')
    assert [offer.name for offer in read(str(good))] == ["m5.large-a-on-demand"]
    (line,) = refusal(str(broken))
    assert line.startswith(f"{broken}:2: column ")


def test_names_of_offers_are_names_of_nodes() -> None:
    assert offer_name("Pool_A", "", "m5.Large", "eu/1") == "pool-a-m5.large-eu-1"
    assert (offer_name("-x.", "."), offer_name("_"), len(offer_name("n" * 300))) == ("x", "offer", 200)


def test_amounts_and_prices_of_plain_data() -> None:
    quantities: list[object] = ["1500m", 2, 0.5, "", True, None, [1], {}]
    assert [amount_of("cpu", each) for each in quantities] == [1500, 2000, 500, *[None] * 5]
    assert amount_of("memory", "1Ki") == 1024
    written = ["0.5", 3, 0, True, None, "x", "-1", -1, "nan", 1e15, 10**14, [1]]
    assert [price_of(each) for each in written] == [0.5, 3.0, 0.0, *[None] * 7, 1e14, None]


# ---- prices


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "p.yaml",
            "- 1\n",
            "p.yaml: Invalid value: a list: must be an object with a price an hour for each instance type",
        ),
        (
            "p.json",
            "[1]",
            "p.json: Invalid value: a list: must be an object with a price an hour for each instance type",
        ),
        ("p.yaml", "prices: {a: 1, b: cheap}", 'p.yaml: prices[b]: Invalid value: "cheap": must be a number from 0'),
        ("p.yaml", "a: {b", "p.yaml:2: column 1: the text does not parse"),
        ("p.yaml", "a: 1\n" + "#" * (1 << 20), "p.yaml: has more than 1 MiB; write prices by instance type"),
    ],
    ids=["a list", "a list in JSON", "a word", "broken text", "a large file"],
)
def test_prices_that_cannot_be_read(name: str, content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        read_prices(str(tmp_path / name))
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(told)


def test_prices_are_given_as_a_file_or_as_a_dictionary(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("a: 1\na: 2\n" + "#" * ((1 << 20) - 10))
    written: list[Any] = [file, str(file), {"a": 2}, {"prices": {"a": 2}}]
    for given in written:
        prices = asked_prices(given)
        assert prices is not None and prices.by_name == {"a": 2.0}
    with pytest.raises(InputError, match=r'^prices\[a\]: Invalid value: "2": must be a number from 0$'):
        asked_prices({"a": "2"})  # type: ignore[dict-item]


def test_rows_of_other_assets_and_broken_rows_hide_no_row_after_them(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("InstanceType,AssetClass,MarketPriceHourly\nd,pv,9\na,,1\nb, Node ,2\n")
    assert [read_prices(str(file)).price(PricedNode("n", {TYPE: kind})) for kind in "dab"] == [None, None, 2]
    file.write_text("InstanceType,MarketPriceHourly\na,x\nb,2\nc,y\n")
    with pytest.raises(InputError) as caught:
        read_prices(str(file))
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [f"{file}:2", f"{file}:4"]
    file.write_text("InstanceType,MarketPriceHourly\na,1\n")
    assert read_prices(str(file)).price(PricedNode("n", {TYPE: "a"})) == 1, "without a column for it, all are nodes"


def test_an_offering_has_its_price_in_every_region(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(json.dumps([a_type()]))
    labels = {TYPE: "m5.large", ZONE: "a", "topology.kubernetes.io/region": "eu"}
    assert read_prices(str(file)).price(PricedNode("n", labels)) == 0.1
