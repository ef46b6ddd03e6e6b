"""The volume plugins over columns say what plain loops over nodes say, whatever the cluster looks like."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import FreshValues, a_cluster, a_node, a_pod
from build_storage import (
    DRIVER,
    HOST,
    ZONE,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_report,
    a_volume,
    an_attachment,
    on,
    using,
)
from how_many import examples
from mooring.cluster.claims.volumes_on_nodes import volumes_of_row
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIPS, Rejection
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import parse, to_amount, to_int
from mooring.model.storage import PersistentVolumeClaim
from mooring.plugins.volumes import volume_choice
from mooring.plugins.volumes.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volumes.pod_volumes import ReportedRoom
from mooring.plugins.volumes.volume_binding import BindingState, VolumeBinding
from mooring.plugins.volumes.volume_zone import VolumeZone
from volume_twin import binding_verdict

pytestmark = pytest.mark.slow

NAMES = [f"n{i}" for i in range(4)]
CLAIMS = [f"c{i}" for i in range(4)]
ZONES = ("a", "b")
TANGLED = [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}, *on(HOST, "n0")]

sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])
terms = st.sampled_from([None, on(ZONE, "a"), on(ZONE, "a", "b"), on(HOST, "n0"), on(HOST, "n1", "n2"), TANGLED, []])
modes = st.sampled_from([("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOnce", "ReadWriteMany")])


@st.composite
def volumes(draw: st.DrawFn) -> Any:
    made = []
    for i in range(draw(st.integers(0, 6))):
        claim = None
        if draw(st.integers(0, 4)) == 0:
            name = draw(st.sampled_from(CLAIMS))
            claim = {"namespace": "default", "name": name, "uid": draw(st.sampled_from(["", f"uid-{name}", "other"]))}
        made.append(
            a_volume(
                f"pv{i}",
                size=draw(sizes),
                class_name=draw(st.sampled_from(["wait", "local"])),
                modes=draw(modes),
                terms=draw(terms),
                claim=claim,
                phase=draw(st.sampled_from(["Available", "Available", "Available", "Released"])),
                labels={"tier": draw(st.sampled_from(["x", "y"]))},
                volumeMode=draw(st.sampled_from([None, None, "Filesystem", "Block"])),
                metadata={"deletionTimestamp": "t"} if draw(st.integers(0, 7)) == 0 else None,
            )
        )
    return made


@st.composite
def claims(draw: st.DrawFn) -> Any:
    made = []
    for name in CLAIMS:
        volume = draw(st.sampled_from(["", "", "", "pv0", "pv1", "gone"]))
        selected = draw(st.sampled_from([None, None, None, None, *NAMES]))
        made.append(
            a_claim(
                name,
                size=draw(st.sampled_from([None, "1Gi", "1Gi", "2Gi"])),
                class_name=draw(st.sampled_from(["wait", "local"])),
                modes=draw(modes),
                volume=volume,
                annotations={"volume.kubernetes.io/selected-node": selected} if selected else None,
                selector=draw(st.sampled_from([None, None, {"matchLabels": {"tier": "x"}}])),
                volumeMode=draw(st.sampled_from([None, None, "Block"])),
            )
        )
    return made


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [a_node(name, labels={HOST: name, ZONE: draw(st.sampled_from(ZONES))}) for name in NAMES]
    topologies = draw(
        st.sampled_from([None, [[(ZONE, ["a"])]], [[(ZONE, ["a"]), (HOST, ["n0"])], [(HOST, ["n3"])], []]])
    )
    reports = [
        a_report(
            f"r{9 - i}",
            capacity=draw(st.sampled_from([None, "1Gi", "2Gi"])),
            maximumVolumeSize=draw(st.sampled_from([None, None, "1Gi"])),
            nodeTopology=draw(
                st.sampled_from(
                    [
                        None,
                        {},
                        {"matchLabels": {ZONE: "a"}},
                        {"matchLabels": {HOST: "n1"}},
                        {"matchLabels": {ZONE: "b", HOST: "n2"}},
                    ]
                )
            ),
        )
        for i in range(draw(st.integers(0, 3)))
    ]
    cluster = a_cluster(
        *nodes,
        a_class("wait", topologies=topologies),
        a_class("local", provisioner="kubernetes.io/no-provisioner"),
        *reports,
        *draw(volumes()),
        *draw(claims()),
    )
    if draw(st.booleans()):
        cluster.put(a_driver(storageCapacity=draw(st.booleans())))
    return cluster


def a_context(cluster: Cluster, pod: Pod) -> SchedulingContext:
    return SchedulingContext(pod, cluster, 0, FreshValues())


def _asked(draw: st.DrawFn, cluster: Cluster) -> Any:
    if draw(st.booleans()):
        return slice(0, cluster.nodes.height)
    return np.array(sorted(draw(st.sets(st.integers(0, cluster.nodes.height - 1), min_size=1))), np.intp)


@settings(max_examples=examples(400), deadline=None)
@pytest.fixture(autouse=True, scope="module", params=["one claim after another", "all claims in one pass"])
def handing_out(request: pytest.FixtureRequest) -> Iterator[None]:
    """A pod with many claims is served in another way, which must come to the same."""
    before = volume_choice.FEW_CLAIMS
    volume_choice.FEW_CLAIMS = before if request.param == "one claim after another" else 0
    yield
    volume_choice.FEW_CLAIMS = before


@given(st.data())
def test_volume_binding_decides_as_a_loop_over_nodes_and_volumes(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    pod = a_pod(volumes=using(*data.draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3))))
    _compare_with_twin(cluster, pod, data.draw(st.composite(lambda draw: _asked(draw, cluster))()))


def _compare_with_twin(cluster: Cluster, pod: Pod, rows: Any) -> None:
    plugin = VolumeBinding(None, Handle())
    context = a_context(cluster, pod)
    assert plugin.pre_filter(context) is None
    codes = plugin.filter(context, rows)
    in_what_if = plugin.filter(context.on(cluster.nodes.sketch(), context.state), rows)
    assert (codes is None) == (in_what_if is None) and (codes is None or (codes == in_what_if).all())
    for i, row in enumerate(np.arange(cluster.nodes.height)[rows].tolist()):
        node = cluster.nodes.nodes[row]
        assert node is not None
        reasons, bindings, made = binding_verdict(cluster, pod, node)
        code = 0 if codes is None else int(codes[i])
        assert list(plugin.rejection(context, code).reasons) == reasons
        if not reasons:
            assert _reserved(cluster, plugin, context, node.name) == (bindings, made)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_room_for_a_volume_is_that_of_the_first_report_by_name(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    room, context = ReportedRoom(), a_context(cluster, a_pod())
    rows = data.draw(st.composite(lambda draw: _asked(draw, cluster))())
    for claim in cluster.storage.claims.values():
        expected = [
            _first_room(cluster, claim, cluster.nodes.nodes[row])
            for row in np.arange(cluster.nodes.height)[rows].tolist()
        ]
        assert room.capacity_for(context, claim, rows).tolist() == expected


def _first_room(cluster: Cluster, claim: PersistentVolumeClaim, node: Node | None) -> int:
    driver = cluster.storage.drivers.get(cluster.storage.classes[claim.class_name].provisioner)
    if node is None or driver is None or not driver.spec.storage_capacity:
        return -1
    for _, report in sorted(cluster.storage.capacities.items()):
        size, wanted = report.largest_volume_bytes, report.node_topology and report.node_topology.match_labels
        is_about = report.node_topology is not None and (wanted or {}).items() <= node.labels.items()
        is_asked = is_about and report.storage_class_name == claim.class_name
        if is_asked and size is not None and size >= to_int(claim.request_nano):
            return to_amount(parse(report.capacity or 0))
    return -1


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_scores_from_the_volumes_that_filter_found_are_those_of_a_fresh_look(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    pod = a_pod(volumes=using(*data.draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3))))
    rows = data.draw(st.composite(lambda draw: _asked(draw, cluster))())
    plugin, context, fresh = VolumeBinding(None, Handle()), a_context(cluster, pod), a_context(cluster, pod)
    assert plugin.pre_filter(context) is None and plugin.pre_filter(fresh) is None
    plugin.filter(context, slice(0, cluster.nodes.height))
    found, expected = plugin.score(context, rows), plugin.score(fresh, rows)
    assert (found is None) == (expected is None)
    assert found is None or expected is None or found.tolist() == expected.tolist()


def _reserved(cluster: Cluster, plugin: VolumeBinding, context: SchedulingContext, node_name: str) -> Any:
    """What a reservation would assume; it is given back at once."""
    before = {name: cluster.storage.volume(name) for name in cluster.storage.volumes}
    plugin.reserve(context, node_name)
    state: BindingState = context.state.read(plugin.name)
    found = (
        [(volume.name, claim.name) for volume, claim in state.reservation.volumes],
        [claim.name for claim in state.reservation.claims],
    )
    plugin.unreserve(context, node_name)
    assert before == {name: cluster.storage.volume(name) for name in cluster.storage.volumes}
    assert cluster.storage.check() == []
    return found


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_claims_that_compete_for_volumes_get_different_ones(data: st.DataObject) -> None:
    """The same for claims and volumes that all suit each other: where it matters who takes which."""
    nodes = [a_node(name, labels={HOST: name, ZONE: data.draw(st.sampled_from(ZONES))}) for name in NAMES]
    volumes = [a_volume(f"pv{i}", size=data.draw(sizes), terms=data.draw(terms)) for i in range(6)]
    claims = [a_claim(name, size=data.draw(st.sampled_from(["1Gi", "2Gi"]))) for name in CLAIMS[:3]]
    cluster = a_cluster(*nodes, a_class(provisioner=""), *volumes, *claims)
    _compare_with_twin(cluster, a_pod(volumes=using(*CLAIMS[:3])), slice(0, len(NAMES)))


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_volumes_are_counted_as_by_a_loop_over_pods(data: st.DataObject) -> None:
    draw = data.draw
    handles = st.sampled_from(["h0", "h1", "h2", "h3"])
    cluster = a_cluster(
        *(a_node(name) for name in NAMES),
        a_class("wait"),
        *(
            a_csi_node(name, csi_example_com=draw(st.sampled_from([None, 1, 2, 3])))
            for name in draw(st.sets(st.sampled_from(NAMES)))
        ),
        *(a_volume(f"pv{i}", handle=draw(handles)) for i in range(4)),
        *(a_claim(name, volume=draw(st.sampled_from(["", "pv0", "pv1", "pv2", "pv3", "gone"]))) for name in CLAIMS),
        *(
            an_attachment(
                f"va{i}", node=draw(st.sampled_from(NAMES)), volume=draw(st.sampled_from(["pv0", "pv3", "gone"]))
            )
            for i in range(draw(st.integers(0, 3)))
        ),
    )
    plugin = NodeVolumeLimits(None, Handle())
    some = st.lists(st.sampled_from(CLAIMS), max_size=3)
    for i in range(draw(st.integers(0, 5))):
        cluster.put(a_pod(f"p{i}", nodeName=draw(st.sampled_from(NAMES)), volumes=using(*draw(some))))
        _change_something(draw, cluster)
        pod = a_pod("new", volumes=using(*draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3))))
        context = a_context(cluster, pod)
        assert plugin.pre_filter(context) is None
        codes = plugin.filter(context, slice(0, cluster.nodes.height))
        found = [0] * len(NAMES) if codes is None else codes.tolist()
        in_what_if = plugin.filter(context.on(cluster.nodes.sketch(), context.state), np.arange(len(NAMES)))
        assert found == ([0] * len(NAMES) if in_what_if is None else in_what_if.tolist())
        assert found == [2 * _is_exceeded(cluster, pod, name) for name in cluster.nodes.names]


def _change_something(draw: Any, cluster: Cluster) -> None:
    """What is kept of rows must follow."""
    match draw(st.sampled_from(["claim", "volume", "gone", "attachment", "nothing"])):
        case "claim":
            cluster.put(a_claim(draw(st.sampled_from(CLAIMS)), volume=draw(st.sampled_from(["", "pv0", "pv2"]))))
        case "volume":
            cluster.put(a_volume(draw(st.sampled_from(["pv0", "gone"])), handle=draw(st.sampled_from(["h0", "h9"]))))
        case "gone":
            cluster.remove(type(a_volume()), "pv0")
        case "attachment":
            cluster.put(an_attachment("va0", node=draw(st.sampled_from(NAMES)), volume="pv1"))


def _is_exceeded(cluster: Cluster, pod: Pod, node_name: str) -> bool:
    """Upstream's steps for one node."""
    storage = cluster.storage
    csi_node = storage.nodes.get(node_name)
    drivers = (csi_node.spec.drivers if csi_node else None) or []
    limits = {d.name: d.allocatable.count for d in drivers if d.allocatable and d.allocatable.count is not None}
    attached = set()
    for other in cluster.nodes.pods_on[cluster.nodes.row_book[node_name]]:
        attached |= _names(cluster, other)
    new = _names(cluster, pod) - attached
    counted = set(attached)
    for attachment in storage.attachments.values():
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name == node_name and volume is not None and volume.spec.csi is not None:
            counted.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
    return DRIVER in limits and bool(new) and len(counted) + len(new) > (limits[DRIVER] or 0)


def _names(cluster: Cluster, pod: Pod) -> set[tuple[str, str]]:
    names = set()
    for volume in pod.spec.volumes or ():
        assert volume.persistent_volume_claim is not None
        claim = cluster.storage.claims[f"default/{volume.persistent_volume_claim.claim_name}"]
        found = cluster.storage.volumes.get(claim.spec.volume_name)
        if found is not None and found.spec.csi is not None:
            names.add((DRIVER, found.spec.csi.volume_handle))
        else:
            names.add((DRIVER, f"unbound {claim.key}"))
    return names


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_zones_are_compared_as_by_a_loop_over_nodes(data: st.DataObject) -> None:
    keys = [
        f"{prefix}/{part}"
        for prefix in ("failure-domain.beta.kubernetes.io", "topology.kubernetes.io")
        for part in ("zone", "region")
    ]
    labels = st.dictionaries(st.sampled_from(keys), st.sampled_from(["a", "b", ""]), max_size=3)
    volume_labels = st.dictionaries(
        st.sampled_from(keys), st.sampled_from(["a", "b", "a__b", " a __c", "a__", ""]), max_size=3
    )
    nodes = [a_node(name, labels=data.draw(labels)) for name in NAMES]
    volumes = [a_volume(f"pv{i}", labels=data.draw(volume_labels)) for i in range(2)]
    cluster = a_cluster(*nodes, *volumes, *(a_claim(f"c{i}", volume=f"pv{i}") for i in range(2)))
    plugin, context = VolumeZone(None, Handle()), a_context(cluster, a_pod(volumes=using("c0", "c1")))
    wanted = [
        (key, {part.strip() for part in volume.labels[key].split("__")})
        for volume in volumes
        for key in keys
        if key in volume.labels and "" not in {part.strip() for part in volume.labels[key].split("__")}
    ]
    answer = plugin.pre_filter(context)
    assert (answer in SKIPS) == (not wanted)
    if answer in SKIPS:
        return
    codes = plugin.filter(context, slice(0, len(nodes)))
    for row, node in enumerate(nodes):
        fits = not any(key in node.labels for key in keys) or all(
            node.labels.get(key, node.labels.get(key.replace("failure-domain.beta.", "topology."))) in values
            for key, values in wanted
        )
        assert (codes is None or codes[row] == 0) == fits


def test_what_is_kept_of_a_row_is_what_is_worked_out_anew() -> None:
    cluster = a_cluster(a_node("n0"), a_volume("pv0"), a_claim("c0", volume="pv0"))
    cluster.put(a_pod("p", nodeName="n0", volumes=using("c0", "c9")))
    kept = cluster.volumes_on_nodes()
    assert kept.row(0) == volumes_of_row(cluster.storage, cluster.nodes.pods_on[0], [])
    cluster.put(a_claim("c9", volume="pv0"))
    assert cluster.volumes_on_nodes().row(0) == volumes_of_row(cluster.storage, cluster.nodes.pods_on[0], [])
    cluster.nodes.displace("default/p")
    assert cluster.volumes_on_nodes().row(0).used == frozenset()


def test_a_rejection_is_no_verdict() -> None:
    """The twin knows only pods whose claims are usable; those that are not never get as far as nodes."""
    plugin = VolumeBinding(None, Handle())
    assert isinstance(plugin.pre_filter(a_context(Cluster(), a_pod(volumes=using("c")))), Rejection)
