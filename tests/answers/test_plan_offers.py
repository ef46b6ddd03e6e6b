"""Offers of nodes: limits of what may be written, and what a new node has."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from written import Written, a_node, a_pod

from device_building import a_device, a_slice
from mooring.answers.plan.offers import NodeOffer, read_offers
from mooring.answers.plan.plan import plan
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import load
from mooring.inputs.offers import offer_files
from mooring.model.devices import ResourceSlice
from mooring.model.node import Node
from mooring.model.storage import CSINode

NODE: Written = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}


def an_offer(**changed: Any) -> Written:
    return {"name": "x", "price": 1, "node": NODE, **changed}


def problems(offers: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_offers(offers, load([a_node("there")]))
    return str(caught.value).splitlines()


# ---- limits


def test_no_more_than_500_offers_are_read() -> None:
    offers = [an_offer(name=f"o-{i}") for i in range(501)]
    assert len(read_offers(offers[:500], load([a_node("there")]))) == 500
    assert problems(offers) == ["501 offers; write at most 500"]


@pytest.mark.parametrize("price", [0, -1, 1e12 + 0.5, float("inf"), float("nan")])
def test_prices_that_are_refused(price: float) -> None:
    (told,) = problems([an_offer(price=price)])
    assert told.startswith("offers[0].price: Invalid value: ") and told.endswith(": must be a number above 0")


@pytest.mark.parametrize("price", [1e-9, 1e12])
def test_prices_that_are_taken(price: float) -> None:
    assert read_offers([an_offer(price=price)], load([a_node("there")]))[0].price == price


def test_limits_from_nothing_to_100_000_are_taken() -> None:
    loaded = load([a_node("there")])
    assert [read_offers([an_offer(limit=limit)], loaded)[0].limit for limit in (0, 100_000)] == [0, 100_000]
    assert problems([an_offer(limit=100_001)]) == ["offers[0].limit: Invalid value: 100001: must be from 0 to 100000"]


def test_files_have_at_most_64_mebibytes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offer_files.MAX_BYTES == 64 * 1024 * 1024
    path = tmp_path / "offers.yaml"
    path.write_text('- {name: x, price: 1, node: {status: {allocatable: {pods: "1"}}}}\n')
    size = path.stat().st_size
    monkeypatch.setattr(offer_files, "MAX_BYTES", size)
    assert len(read_offers(path, load([a_node("there")]))) == 1
    monkeypatch.setattr(offer_files, "MAX_BYTES", size - 1)
    assert problems(path) == [f"{path}: all input together has more than {size - 1} bytes; give fewer files"]


def test_other_forms_are_refused() -> None:
    told = "must be a list of offers, or one under `offers:`"
    assert problems({"offers": [an_offer()], "more": 1})[0].endswith(told)
    assert problems("no-such-file") == ["no-such-file: cannot be read: No such file or directory"]
    assert len(read_offers((an_offer(),), load([a_node("there")]))) == 1


def test_the_problems_of_all_entries_are_told() -> None:
    assert problems([an_offer(price=None), 7, an_offer(name="y", limit="many"), an_offer(name="z", like="there")]) == [
        "offers[0].price: Required value: a number: what one node costs",
        "offers[1]: Invalid value: 7: must be an object with `name`, `price` and `node` or `like`",
        'offers[2].limit: Invalid value: "many": must be an integer',
        "offers[3]: `node` or `like`, and not both: write one of them",
    ]


def test_a_name_that_no_node_may_have_is_a_problem_of_the_name() -> None:
    (told,) = problems([an_offer(name="No Name")])
    assert told.startswith('offers[0].name: Invalid value: "No Name": ')


def test_unknown_fields_of_a_node_are_refused_unless_fields_are_not_checked() -> None:
    node = {**NODE, "spec": {"taint": []}}
    assert problems([an_offer(node=node)]) == ["offers[0].node.spec.taint: unknown field; did you mean taints?"]
    assert len(read_offers([an_offer(node=node)], load([a_node("there")]), Validation.IGNORE)) == 1


def test_capacity_stands_for_what_pods_can_use() -> None:
    node = {"status": {"capacity": {"cpu": "4", "pods": "9"}}}
    (offer,) = read_offers([an_offer(node=node)], load([a_node("there")]))
    assert set(offer.template.status.allocatable or {}) == {"cpu", "pods"}


# ---- new nodes


def test_a_new_node_has_the_labels_and_taints_of_its_template_and_its_own_name() -> None:
    template = {
        **NODE,
        "metadata": {"labels": {"pool": "x"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    }
    (offer,) = read_offers([an_offer(node=template)], load([a_node("there")]))
    (node,) = offer.node("x-1")
    assert isinstance(node, Node)
    assert (node.name, node.labels) == ("x-1", {"pool": "x", "kubernetes.io/hostname": "x-1"})
    assert [taint.key for taint in node.taints] == ["k"]
    assert (offer.like, list(offer.equipment)) == ("", [])
    assert repr(offer) == "NodeOffer(name='x', price=1.0, limit=100000, like='')"


def test_a_new_node_publishes_the_devices_of_its_annotation() -> None:
    template = {**NODE, "metadata": {"annotations": {"mooring.dev/devices": "gpu.example.com=2:model=a100"}}}
    (offer,) = read_offers([an_offer(node=template)], load([a_node("there")]))
    node, devices = offer.node("x-1")
    assert isinstance(devices, ResourceSlice)
    assert (node.name, devices.spec.node_name, len(devices.spec.devices or [])) == ("x-1", "x-1", 2)


def test_a_node_like_another_has_its_drivers_and_devices() -> None:
    drivers = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "there"}}
    drivers["spec"] = {"drivers": [{"name": "disk.example.com", "nodeID": "1", "allocatable": {"count": 3}}]}
    other = {**drivers, "metadata": {"name": "elsewhere"}}
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        **msgspec.to_builtins(a_slice("s", a_device("dev-0"), node="there")),
    }
    state = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]
    loaded = load([a_node("there", taints=state), a_node("elsewhere"), drivers, other, devices])
    (offer,) = read_offers([{"name": "x", "price": 1, "like": "there"}], loaded)
    node, *more = offer.node("x-1")
    assert isinstance(node, Node) and [taint.key for taint in node.taints] == ["own"], "not what tells the state of one"
    assert [(type(item), item.name) for item in more] == [(CSINode, "x-1"), (ResourceSlice, "s-x-1")]
    (piece,) = (item for item in more if isinstance(item, ResourceSlice))
    assert (piece.spec.node_name, piece.spec.pool.name) == ("x-1", "there-x-1")
    assert (offer.like, len(offer.equipment)) == ("there", 2)


def test_offers_that_are_read_leniently_are_planned_with() -> None:
    """The plan hands on how strictly fields are checked."""
    offers = [an_offer(node={**NODE, "spec": {"taint": []}})]
    assert len(plan(load([a_pod("p")]), offers, validation=Validation.IGNORE).added) == 1
    with pytest.raises(InputError, match="unknown field"):
        plan(load([a_pod("p")]), offers)
    assert NodeOffer("x", 1.0, 1, Node()).node("n")[0].name == "n"
