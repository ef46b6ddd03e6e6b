"""The volume plugins asked about one node at a time, in plain loops: what the columns are measured against."""

from mooring.cluster.cluster import Cluster
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import parse
from mooring.model.selectors import compile_node_selector, compile_selector
from mooring.model.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from mooring.model.volumes import SELECTED_NODE, is_fully_bound

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

Bindings = list[tuple[str, str]]


def binding_verdict(cluster: Cluster, pod: Pod, node: Node) -> tuple[list[str], Bindings, list[str]]:
    """Reasons against a node; volumes with the claims that would get them; claims that one would be made for."""
    storage = cluster.storage
    found = [
        storage.claim(f"{pod.namespace}/{v.persistent_volume_claim.claim_name}")
        for v in pod.spec.volumes or ()
        if v.persistent_volume_claim
    ]
    claims = [claim for claim in found if claim is not None]
    reasons = {problem for problem in [_why_not_reached(cluster, claims, node)] if problem}
    delayed = [claim for claim in claims if not is_fully_bound(claim)]
    to_match, to_make = [], []
    for claim in delayed:
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if selected is None:
            to_match.append(claim)
        elif selected == node.name:
            to_make.append(claim)
        else:
            return _ordered({*reasons, NO_VOLUME}), [], []
    bindings: Bindings = []
    for claim in sorted(to_match, key=lambda claim: claim.request_nano):
        volume = find_volume(cluster, claim, node, {name for name, _ in bindings})
        if volume is None:
            to_make.append(claim)
        else:
            bindings.append((volume.name, claim.name))
    for claim in to_make:
        problem = _why_not_made(cluster, claim, node)
        if problem:
            reasons.add(problem)
            break
    return _ordered(reasons), bindings, [claim.name for claim in to_make]


def _why_not_reached(cluster: Cluster, claims: list[PersistentVolumeClaim], node: Node) -> str | None:
    """What is wrong with the first bound claim whose volume the node cannot use."""
    for claim in claims:
        if is_fully_bound(claim):
            volume = cluster.storage.volume(claim.spec.volume_name)
            if volume is None:
                return NO_SUCH_VOLUME
            if not reaches(volume, node):
                return AFFINITY
    return None


def _ordered(reasons: set[str]) -> list[str]:
    return [reason for reason in (AFFINITY, NO_VOLUME, NO_ROOM, NO_SUCH_VOLUME) if reason in reasons]


def reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return compile_node_selector(affinity.required).matches("", node.labels)


def find_volume(
    cluster: Cluster, claim: PersistentVolumeClaim, node: Node, excluded: set[str]
) -> PersistentVolume | None:
    """Volume by volume in order of name, as upstream's loop does it."""
    smallest: PersistentVolume | None = None
    for name in sorted(cluster.storage.volumes):
        volume = cluster.storage.volume(name)
        assert volume is not None
        spec, held = volume.spec, volume.spec.claim_ref
        if volume.class_name != claim.class_name or name in excluded:
            continue
        is_ours = held is not None and (held.namespace, held.name) == (claim.namespace, claim.name)
        is_ours = is_ours and held is not None and held.uid in ("", claim.uid)
        if held is not None and not is_ours:
            continue
        if volume.capacity_nano < claim.request_nano or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        if (spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
            continue
        if is_ours:
            return volume if reaches(volume, node) else None
        if volume.status.phase != "Available" or not reaches(volume, node):
            continue
        if claim.spec.selector is not None and not compile_selector(claim.spec.selector).matches(volume.labels):
            continue
        if not set(claim.spec.access_modes or ()) <= set(spec.access_modes or ()):
            continue
        if smallest is None or volume.capacity_nano < smallest.capacity_nano:
            smallest = volume
    return smallest


def _why_not_made(cluster: Cluster, claim: PersistentVolumeClaim, node: Node) -> str | None:
    storage_class = cluster.storage.classes[claim.class_name]
    if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
        return NO_VOLUME
    terms = storage_class.allowed_topologies or []
    if terms and not any(
        term.match_label_expressions
        and all(node.labels.get(line.key) in (line.values or ()) for line in term.match_label_expressions)
        for term in terms
    ):
        return NO_VOLUME
    driver = cluster.storage.drivers.get(storage_class.provisioner)
    requests = claim.spec.resources.requests if claim.spec.resources else None
    if "storage" not in (requests or {}) or driver is None or not driver.spec.storage_capacity:
        return None
    return None if _first_report(cluster, claim, node) is not None else NO_ROOM


def _first_report(cluster: Cluster, claim: PersistentVolumeClaim, node: Node) -> CSIStorageCapacity | None:
    """The first report, by name, with room for the claim's volume on the node."""
    for _, report in sorted(cluster.storage.capacities.items()):
        size = report.largest_volume_bytes
        if report.storage_class_name != claim.class_name or report.node_topology is None or size is None:
            continue
        enough = size * 10**9 >= claim.request_nano
        if enough and compile_selector(report.node_topology).matches(node.labels):
            return report
    return None


def binding_score(cluster: Cluster, node: Node, bindings: Bindings, made: list[str]) -> int:
    """The score of a node with the default shape: how much stays free, as the mean over storage classes.

    Volumes that are there count; where there are none, those that are to be made count if their driver reports capacity.
    """
    sums: dict[str, tuple[int, int]] = {}
    for volume_name, claim_name in bindings:
        volume, claim = cluster.storage.volume(volume_name), cluster.storage.claim(f"default/{claim_name}")
        assert volume is not None
        assert claim is not None
        requested, capacity = sums.get(claim.class_name, (0, 0))
        sums[claim.class_name] = (requested + claim.request_nano, capacity + volume.capacity_nano)
    for claim_name in made if not bindings else ():
        claim = cluster.storage.claim(f"default/{claim_name}")
        assert claim is not None
        driver = cluster.storage.drivers.get(cluster.storage.classes[claim.class_name].provisioner)
        report = _first_report(cluster, claim, node)
        if driver is not None and driver.spec.storage_capacity and report is not None:
            requested, _ = sums.get(claim.class_name, (0, 0))
            sums[claim.class_name] = (requested + claim.request_nano, parse(report.capacity or 0))
    if not sums:
        return 0
    used = [
        100 if requested > capacity or not capacity else requested * 100 // capacity
        for requested, capacity in sums.values()
    ]
    return (2 * sum(100 - percent for percent in used) + len(used)) // (2 * len(used))
