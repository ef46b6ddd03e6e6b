"""Where volumes can be used, and which volume each of several claims gets: examples that are worked out by hand."""

import pytest

from build import a_cluster, a_node, a_pod
from build_storage import HOST, ZONE, a_claim, a_class, a_csi_node, a_volume, on
from mooring.cluster.cluster import Cluster
from mooring.model.meta import KubeObject
from mooring.plugins.volumes import volume_choice
from mooring.plugins.volumes.volume_choice import (
    NO_SUCH_VOLUME,
    OUT_OF_REACH,
    ReachMasks,
    bound_codes,
    choose_volumes,
    is_in_reach,
    rows_in_reach,
)
from volume_asking import a_context

ALL = slice(0, 2)
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}


def zones(*objects: KubeObject) -> Cluster:
    """Node n0 in zone a, node n1 in zone b."""
    nodes = [a_node(f"n{i}", labels={ZONE: zone, HOST: f"n{i}"}) for i, zone in enumerate("ab")]
    return a_cluster(*nodes, a_class(), *objects)


def test_a_mask_follows_the_labels_of_nodes() -> None:
    volume = a_volume(terms=on(ZONE, "a"))
    cluster, reaches = zones(volume), ReachMasks()
    context = a_context(cluster, a_pod())
    assert volume.reach is not None
    assert reaches.of(context.nodes, volume.reach)[ALL].tolist() == [True, False]
    cluster.put(a_node("n1", labels={ZONE: "a"}))
    assert reaches.of(context.nodes, volume.reach)[ALL].tolist() == [True, True]


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        pytest.param(("far", "gone"), [NO_SUCH_VOLUME, OUT_OF_REACH], id="the first claim decides"),
        pytest.param(("gone", "far"), [NO_SUCH_VOLUME, NO_SUCH_VOLUME], id="what is missing is missing everywhere"),
        pytest.param(("far",), [0, OUT_OF_REACH], id="one volume"),
    ],
)
def test_a_row_has_the_code_of_the_first_claim_whose_volume_cannot_be_used(
    names: tuple[str, ...], codes: list[int]
) -> None:
    context = a_context(zones(a_volume("far", terms=on(ZONE, "a"))), a_pod())
    claims = [a_claim(f"c-{name}", volume=name) for name in names]
    assert bound_codes(context, claims, ALL, ReachMasks()).tolist() == codes


def test_an_in_tree_volume_is_used_anywhere_but_where_its_driver_looks_at_its_zone() -> None:
    disk = a_volume(handle="", gcePersistentDisk={"pdName": "d"}, labels={ZONE: "z"})
    here, there = a_csi_node("n0"), a_csi_node("n1", annotations=MIGRATED)
    context = a_context(zones(disk, here, there), a_pod())
    reached = rows_in_reach(context, disk, ALL, ReachMasks())
    assert reached is not None and reached.tolist() == [True, False]
    assert is_in_reach(disk, {ZONE: "a"}, here) and not is_in_reach(disk, {ZONE: "a"}, there)


def test_a_csi_volume_is_not_translated() -> None:
    both = a_volume(handle="h", gcePersistentDisk={"pdName": "d"}, labels={ZONE: "z"})
    node = a_csi_node("n1", annotations=MIGRATED)
    assert is_in_reach(both, {ZONE: "a"}, node)
    assert rows_in_reach(a_context(zones(both, node), a_pod()), both, ALL, ReachMasks()) is None


# ---- choices


def chosen(cluster: Cluster, *claims: str) -> dict[str, list[str | None]]:
    """For each row the volume that each claim gets, the claims in ascending order of size."""
    context = a_context(cluster, a_pod())
    asked = [cluster.storage.claim(f"default/{name}") for name in claims]
    found = choose_volumes(context, [claim for claim in asked if claim is not None], ALL, ReachMasks())
    rows = {name: context.nodes.row_book[name] for name in ("n0", "n1")}
    return {
        name: [None if (volume := choice.volume(row)) is None else volume.name for choice in found]
        for name, row in rows.items()
    }


@pytest.fixture(params=[0, 100], ids=["handed out in one pass", "chosen one by one"], autouse=True)
def few_claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_choice, "FEW_CLAIMS", request.param)


def test_the_smallest_volume_that_fits_and_is_reached_goes_to_the_smallest_claim() -> None:
    volumes = [
        a_volume("small-a", size="1Gi", terms=on(ZONE, "a")),
        a_volume("small-b", size="1Gi", terms=on(ZONE, "b")),
        a_volume("middle", size="2Gi"),
        a_volume("large-a", size="3Gi", terms=on(ZONE, "a")),
    ]
    claims = [a_claim("c1", size="1Gi"), a_claim("c2", size="1Gi"), a_claim("c3", size="3Gi")]
    cluster = zones(*volumes, *claims)
    assert chosen(cluster, "c3", "c1", "c2") == {
        "n0": ["small-a", "middle", "large-a"],
        "n1": ["small-b", "middle", None],
    }


def test_claims_of_two_classes_do_not_compete() -> None:
    objects = [a_class("other"), a_volume("one"), a_volume("two", class_name="other")]
    cluster = zones(*objects, a_claim("c1"), a_claim("c2", class_name="other"), a_claim("c3"))
    assert chosen(cluster, "c1", "c2", "c3") == {"n0": ["one", "two", None], "n1": ["one", "two", None]}


def test_a_volume_that_names_a_claim_is_kept_for_it_and_given_once() -> None:
    kept = a_volume("z-kept", claim={"namespace": "default", "name": "c", "uid": ""}, terms=on(ZONE, "a"))
    cluster = zones(kept, a_volume("free"), a_claim("c"), a_claim("d"))
    assert chosen(cluster, "c") == {"n0": ["z-kept"], "n1": [None]}, "also where it cannot be used"
    assert chosen(cluster, "c", "c") == {"n0": ["z-kept", "free"], "n1": [None, None]}
    assert chosen(cluster, "d", "c") == {"n0": ["free", "z-kept"], "n1": ["free", None]}
