"""VolumeBinding: which pods are refused, and what is said of nodes. Which volume is chosen: test_volume_twins.py."""

from typing import Any

import pytest

from build import a_cluster, a_node, a_pod
from build_storage import HOST, ZONE, a_claim, a_class, a_csi_node, a_driver, a_report, a_volume, on, using
from mooring.framework import config
from mooring.framework.config.args import UtilizationShapePoint, VolumeBindingArgs
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIP, SKIPS, Code, PluginError
from mooring.plugins.volumes.volume_binding import VolumeBinding
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.state.scheduler_assembly import build_runners
from volume_asking import a_context, reasons, verdicts

PLUGIN = VolumeBinding(None, Handle())
POD = a_pod("p", metadata={"uid": "u"}, volumes=using("c"))
EPHEMERAL = a_pod("p", metadata={"uid": "u"}, volumes=[{"name": "e", "ephemeral": {}}])
OWNED = {"ownerReferences": [{"name": "p", "uid": "u", "controller": True}]}
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}

REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "no such claim": (POD, [], 'persistentvolumeclaim "c" not found'),
    "a claim that is yet to be made": (
        EPHEMERAL,
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"',
    ),
    "a claim that was made for another": (
        EPHEMERAL,
        [a_claim("p-e")],
        "PVC default/p-e was not created for pod default/p (pod is not owner)",
    ),
    "a claim that lost its volume": (
        POD,
        [a_claim("c", volume="pv", phase="Lost")],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
    ),
    "a claim that is on its way out": (
        POD,
        [a_claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        'persistentvolumeclaim "c" is being deleted',
    ),
    "a claim of no class": (POD, [a_claim("c", class_name=None)], UNBOUND),
    "a claim of a class that is not there": (POD, [a_claim("c")], UNBOUND),
    "a claim that others should bind": (POD, [a_claim("c"), a_class(mode="Immediate")], UNBOUND),
    "a claim that names its volume but is not bound": (
        POD,
        [a_claim("c", volume="pv", is_bound=False), a_class()],
        UNBOUND,
    ),
    "the old annotation names the class": (
        POD,
        [a_claim("c", annotations={"volume.beta.kubernetes.io/storage-class": ""}), a_class()],
        UNBOUND,
    ),
}


@pytest.mark.parametrize(("pod", "objects", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_is_refused(pod: Any, objects: list[Any], text: str) -> None:
    found = verdicts(PLUGIN, a_cluster(a_node("n"), *objects), pod)[""]
    assert found is not None
    assert (found.message, found.code) == (text, Code.UnschedulableAndUnresolvable)


def test_a_class_without_mode_is_an_error() -> None:
    cluster = a_cluster(a_node("n"), a_claim("c"), a_class(mode=None))
    with pytest.raises(PluginError, match='^VolumeBindingMode not set for StorageClass "wait"$'):
        PLUGIN.pre_filter(a_context(cluster, POD))


def test_a_pod_without_claims_is_skipped() -> None:
    for pod in (a_pod(), a_pod(volumes=[{"name": "d", "emptyDir": {}}])):
        context = a_context(a_cluster(a_node("n")), pod)
        assert PLUGIN.pre_filter(context) in SKIPS
        assert PLUGIN.reserve(context, "n") is None
        assert PLUGIN.pre_bind(context, "n") is None


def test_reserve_binds_nothing_without_what_filter_finds() -> None:
    """As upstream's does in profiles that disable Filter."""
    cluster = a_cluster(a_node("n"), a_claim("c"), a_class(), a_volume())
    context = a_context(cluster, POD)
    assert PLUGIN.pre_filter(context) is None
    assert PLUGIN.reserve(context, "n") is None
    assert PLUGIN.pre_bind(context, "n") is None and cluster.storage.is_settled()
    assert PLUGIN.filter(context, slice(0, 1)) is None
    PLUGIN.reserve(context, "n")
    assert not cluster.storage.is_settled(), "with Filter it binds the volume"


ZONAL = on(ZONE, "a")
ON_NODES: dict[str, tuple[Any, list[Any], dict[str, list[str]]]] = {
    "a volume for all": (POD, [a_claim("c", volume="pv"), a_volume()], {}),
    "a volume for one zone": (POD, [a_claim("c", volume="pv"), a_volume(terms=ZONAL)], {"n2": [AFFINITY]}),
    "a volume for no node": (
        POD,
        [a_claim("c", volume="pv"), a_volume(terms=[])],
        {"n1": [AFFINITY], "n2": [AFFINITY]},
    ),
    "a term that cannot be read": (
        POD,
        [a_claim("c", volume="pv"), a_volume(terms=[{"matchExpressions": [{"key": ZONE, "operator": "Near"}]}])],
        {"n1": [AFFINITY], "n2": [AFFINITY]},
    ),
    "fields of nodes are not looked at": (
        POD,
        [
            a_claim("c", volume="pv"),
            a_volume(terms=[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]),
        ],
        {},
    ),
    "a volume that is gone": (
        POD,
        [a_claim("c", volume="pv")],
        {"n1": [NO_SUCH_VOLUME], "n2": [NO_SUCH_VOLUME]},
    ),
    "one volume out of reach, then one that is gone": (
        a_pod(volumes=using("c", "d")),
        [a_claim("c", volume="pv"), a_volume(terms=ZONAL), a_claim("d", volume="gone")],
        {"n1": [NO_SUCH_VOLUME], "n2": [AFFINITY]},
    ),
    "a bound and a waiting claim have their own reasons": (
        a_pod(volumes=using("c", "d")),
        [a_claim("c", volume="pv"), a_volume(terms=ZONAL, phase="Bound"), a_claim("d"), a_class(provisioner="")],
        {"n1": [NO_VOLUME], "n2": [AFFINITY, NO_VOLUME]},
    ),
    "nothing to bind and nobody to make it": (
        POD,
        [a_claim("c"), a_class(provisioner="kubernetes.io/no-provisioner")],
        {"n1": [NO_VOLUME], "n2": [NO_VOLUME]},
    ),
    "a volume can be made anywhere": (POD, [a_claim("c"), a_class()], {}),
    "a volume can be made in one zone": (
        POD,
        [a_claim("c"), a_class(topologies=[[(ZONE, ["a", "x"])]])],
        {"n2": [NO_VOLUME]},
    ),
    "an empty topology allows nothing": (
        POD,
        [a_claim("c"), a_class(topologies=[[]])],
        {"n1": [NO_VOLUME], "n2": [NO_VOLUME]},
    ),
    "there is room on one node": (
        POD,
        [
            a_claim("c"),
            a_class(),
            a_driver(storageCapacity=True),
            a_report(capacity="1Gi", nodeTopology={"matchLabels": {HOST: "n1"}}),
        ],
        {"n2": [NO_ROOM]},
    ),
    "nobody reports room": (
        POD,
        [a_claim("c"), a_class(), a_driver(storageCapacity=True)],
        {"n1": [NO_ROOM], "n2": [NO_ROOM]},
    ),
    "room that is not to be looked at": (POD, [a_claim("c"), a_class(), a_driver(storageCapacity=False)], {}),
    "a claim of no size needs no room": (
        POD,
        [a_claim("c", size=None), a_class(), a_driver(storageCapacity=True)],
        {},
    ),
    "a topology is looked at before room": (
        POD,
        [a_claim("c"), a_class(topologies=[[(ZONE, ["a"])]]), a_driver(storageCapacity=True)],
        {"n1": [NO_ROOM], "n2": [NO_VOLUME]},
    ),
    "a volume is being made for one node": (
        POD,
        [a_claim("c", annotations={"volume.kubernetes.io/selected-node": "n2"}), a_class()],
        {"n1": [NO_VOLUME]},
    ),
    "an in-tree volume under the driver's label, where the driver has taken over": (
        POD,
        [
            a_claim("c", volume="pv"),
            a_volume(terms=ZONAL, handle="", gcePersistentDisk={"pdName": "d"}),
            a_csi_node("n1", annotations=MIGRATED),
        ],
        {"n1": [AFFINITY], "n2": [AFFINITY]},
    ),
    "an in-tree volume by its own label elsewhere": (
        POD,
        [a_claim("c", volume="pv"), a_volume(terms=ZONAL, handle="", gcePersistentDisk={"pdName": "d"})],
        {"n2": [AFFINITY]},
    ),
    "an ephemeral volume is a claim like others": (
        EPHEMERAL,
        [a_claim("p-e", metadata=OWNED), a_class(topologies=[[(ZONE, ["a"])]])],
        {"n2": [NO_VOLUME]},
    ),
}


@pytest.mark.parametrize(("pod", "objects", "rejected"), ON_NODES.values(), ids=ON_NODES.keys())
def test_what_is_said_of_nodes(pod: Any, objects: list[Any], rejected: dict[str, list[str]]) -> None:
    nodes = [a_node("n1", labels={HOST: "n1", ZONE: "a"}), a_node("n2", labels={HOST: "n2", ZONE: "b"})]
    cluster = a_cluster(*nodes, *objects)
    assert reasons(PLUGIN, cluster, pod) == rejected
    assert all(
        r is None or r.code is Code.UnschedulableAndUnresolvable for r in verdicts(PLUGIN, cluster, pod).values()
    )


# ---- scores


def a_scorer(*shape: tuple[int, int]) -> VolumeBinding:
    points = [UtilizationShapePoint(utilization=u, score=s) for u, s in shape or ((0, 10), (100, 0))]
    return VolumeBinding(VolumeBindingArgs(shape=points), Handle(feature_gates={"StorageCapacityScoring": True}))


def scores(plugin: VolumeBinding, *objects: Any, claims: tuple[str, ...] = ("c",)) -> list[int]:
    cluster = a_cluster(a_node("n1", labels={HOST: "n1"}), a_node("n2", labels={HOST: "n2"}), *objects)
    context = a_context(cluster, a_pod(volumes=using(*claims)))
    assert plugin.pre_filter(context) is None
    assert plugin.pre_score(context, slice(0, 2)) is None
    found = plugin.score(context, slice(0, 2))
    return [0, 0] if found is None else found.tolist()


def room(size: str, name: str = "room", **more: Any) -> list[Any]:
    report = a_report(name, capacity=size, nodeTopology={"matchLabels": {HOST: "n1"}}, **more)
    return [a_driver(storageCapacity=True), report]


SCORES: dict[str, tuple[list[Any], list[int]]] = {
    "30 of 100 are wanted": ([a_claim("c", size="30Gi"), a_class(), *room("100Gi")], [70, 0]),
    "more than there is counts as all": (
        [a_claim("c", size="120Gi"), a_class(), *room("100Gi", maximumVolumeSize="200Gi")],
        [0, 0],
    ),
    "the first report by name that has room": (
        [
            a_claim("c", size="30Gi"),
            a_class(),
            *room("100Gi", name="b"),
            *room("20Gi", name="a"),
            *room("50Gi", name="c"),
        ],
        [70, 0],
    ),
    "a report about a node that is gone": (
        [
            *(a_claim("c", size="30Gi"), a_class(), *room("100Gi")),
            *(a_report(f"a{i}", capacity="9Ti", nodeTopology={"matchLabels": {HOST: f"gone-{i}"}}) for i in range(9)),
        ],
        [70, 0],
    ),
    "more bytes than 64 bits hold": ([a_claim("c", size="30Gi"), a_class(), *room("10E")], [100, 0]),
    "a volume four times as large": ([a_claim("c"), a_class(), a_volume(size="4Gi", terms=on(HOST, "n1"))], [75, 0]),
    "a volume that is kept for the claim": (
        [a_claim("c"), a_class(), a_volume(size="2Gi", claim={"namespace": "default", "name": "c"})],
        [50, 50],
    ),
    "nothing is known": ([a_claim("c"), a_class()], [0, 0]),
    "only bound claims": ([a_claim("c", volume="pv"), a_volume()], [0, 0]),
}


@pytest.mark.parametrize(("objects", "expected"), SCORES.values(), ids=SCORES.keys())
def test_scores(objects: list[Any], expected: list[int]) -> None:
    assert scores(a_scorer(), *objects) == expected


def test_classes_count_alike_and_halves_go_up() -> None:
    objects = [
        *(a_claim("c", size="30Gi"), a_class(), *room("100Gi")),
        *(a_claim("d", size="55Gi", class_name="other"), a_class("other")),
        a_report("r", class_name="other", capacity="100Gi", nodeTopology={"matchLabels": {HOST: "n1"}}),
    ]
    assert scores(a_scorer(), *objects, claims=("c", "d")) == [58, 0]


def test_volumes_that_are_there_count_before_room() -> None:
    """Parity: where one claim gets a volume that is there, those that are to be made do not count."""
    objects = [
        *(a_claim("c"), a_class(), a_volume(size="4Gi", terms=on(HOST, "n1"))),
        *(a_claim("d", size="90Gi", class_name="other"), a_class("other")),
        a_report("r", class_name="other", capacity="100Gi", nodeTopology={}),
        a_driver(storageCapacity=True),
        a_report("s", capacity="2Gi", nodeTopology={}),
    ]
    assert scores(a_scorer(), *objects, claims=("c", "d")) == [75, 30]


def test_the_shape_can_be_turned_around() -> None:
    objects = [a_claim("c", size="30Gi"), a_class(), *room("100Gi")]
    assert scores(a_scorer((0, 0), (100, 10)), *objects) == [30, 0]


def test_v137_18_1_scores_are_on_and_the_gate_takes_them_away() -> None:
    """PreScore never skips: a pod without volumes scores 0 everywhere."""
    context = a_context(a_cluster(a_node("n")), POD)
    assert PLUGIN.pre_score(context, slice(0, 1)) is None
    off = VolumeBinding(None, Handle(feature_gates={"StorageCapacityScoring": False}))
    assert off.pre_score(context, slice(0, 1)) is SKIP


def test_v137_18_1_the_default_configuration_prefers_free_capacity() -> None:
    """Of two nodes with room for the volume, the one with more of it left is chosen."""
    free = {"n1": "50Gi", "n2": "200Gi", "n3": "100Gi"}
    reports = [
        a_report(f"r-{name}", capacity=size, nodeTopology={"matchLabels": {HOST: name}}) for name, size in free.items()
    ]
    nodes = [a_node(name, labels={HOST: name}) for name in free]
    cluster = a_cluster(*nodes, a_claim("c", size="20Gi"), a_class(), a_driver(storageCapacity=True), *reports)
    (runner,) = build_runners(config.default()).values()
    decision = decide(runner, a_pod(volumes=using("c")), cluster, DecideOptions(explain=True))
    assert isinstance(decision, Placement)
    assert decision.node == "n2"
    assert decision.details is not None
    scores_of = {name: by_plugin["VolumeBinding"] for name, by_plugin in decision.details.scores.items()}
    assert scores_of == {"n1": 60, "n2": 90, "n3": 80}
