"""The placer of conformance runs reserves what pods use: the next pod sees it, and a reservation can fail."""

import json
from typing import Any

import msgspec

from build import a_node, a_pod
from build_storage import HOST, a_claim, a_class, a_volume, on, using
from mooring.framework.contract.status import curable
from mooring.framework.profile.registry import Registry
from mooring.model.meta import KubeObject
from mooring.plugins import in_tree
from mooring.plugins.volumes.volume_binding import VolumeBinding
from mooring.scheduler.decide import DecideOptions
from mooring.sim.scenario import Outcome, load, parse


def a_scenario(*objects: KubeObject, pods: list[str]) -> Any:
    written = [{"kind": type(item).__name__, **msgspec.to_builtins(item)} for item in objects]
    return parse(json.dumps({"name": "s", "objects": written, "pods": pods}))


def a_user(name: str, claim: str) -> Any:
    return a_pod(name, schedulerName="default-scheduler", volumes=using(claim))


NODES = [a_node(name, labels={HOST: name}) for name in ("n1", "n2")]
VOLUMES = [a_volume(f"pv{i}", terms=on(HOST, "n2")) for i in range(2)]


def test_each_pod_gets_a_volume_of_its_own() -> None:
    pods = [f"p{i}" for i in range(3)]
    objects = [*NODES, *VOLUMES, a_class(provisioner=""), *map(a_claim, pods), *(a_user(name, name) for name in pods)]
    placer = load(a_scenario(*objects, pods=pods), DecideOptions())
    outcomes = [placer.place(f"default/{name}").outcome for name in pods]
    assert outcomes == [Outcome.SCHEDULED, Outcome.SCHEDULED, Outcome.UNSCHEDULABLE]
    assert placer.cluster.storage.check() == []


def test_a_second_pod_with_the_claim_goes_where_its_volume_will_be() -> None:
    objects = [*NODES, a_claim("c"), a_class(), a_user("p", "c"), a_user("q", "c")]
    placer = load(a_scenario(*objects, pods=["p", "q"]), DecideOptions())
    placer.place("default/p")
    placer.place("default/q")
    (node,) = {placer.cluster.nodes.names[placer.cluster.nodes.row_of_pod(f"default/{name}") or 0] for name in "pq"}
    assert node == "n1"


class Refuses(VolumeBinding):
    """Claims everything, then says no."""

    def reserve(self, context: Any, node_name: str) -> Any:
        super().reserve(context, node_name)
        return curable("not now")


def test_a_reservation_that_fails_is_given_back() -> None:
    registry = Registry()
    for name, factory in in_tree().items():
        registry.register_factory(name, Refuses if name == VolumeBinding.name else factory)
    scenario = a_scenario(*NODES, *VOLUMES, a_claim("c"), a_class(), a_user("p", "c"), pods=["p"])
    placer = load(scenario, DecideOptions(), registry)
    assert placer.place("default/p").outcome is Outcome.RESERVE_FAILED
    storage = placer.cluster.storage
    assert all(storage.volume(name) is volume for name, volume in storage.volumes.items())
    assert "default/p" in placer.pending
