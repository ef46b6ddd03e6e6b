"""Volumes by node: what changes between two refreshes is seen, in whatever order it comes."""

from itertools import permutations

import pytest

from build import a_cluster, a_node
from build_storage import a_class, a_volume, an_attachment
from mooring.cluster.claims.volumes_on_nodes import VolumesOnNodes
from mooring.model.meta import KubeObject

CHANGES: tuple[KubeObject, ...] = (a_class(), a_volume("pv"), an_attachment(node="n", volume="pv"))


@pytest.mark.parametrize("changes", list(permutations(CHANGES)), ids=lambda c: " ".join(type(i).__name__ for i in c))
def test_an_attachment_is_seen_also_where_a_class_changes_before_it(changes: tuple[KubeObject, ...]) -> None:
    cluster = a_cluster(a_node("n"))
    volumes = VolumesOnNodes(cluster.storage, cluster.nodes)
    volumes.refresh()
    for item in changes:
        cluster.put(item)
    volumes.refresh()
    assert [attachment.name for attachment in volumes.attachments(0)] == ["va"]
