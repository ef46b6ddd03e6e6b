"""When a large pod is gone, nothing of it is left: no shape, no counts, no columns, no terms."""

import gc
import sys
import weakref
from pathlib import Path

import pytest

from how_many import some_of
from mooring.cluster.cache import check_table

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import large_objects
import one_object

pytestmark = pytest.mark.slow

PODS = [name for name, build in large_objects.DIMENSIONS.items() if build(1).item["kind"] == "Pod"]
SIZE = 200


@pytest.mark.parametrize("name", some_of([name for name in PODS if name != "too_many_resource_claims"], fewest=4))
def test_a_large_pod_leaves_nothing_behind(name: str) -> None:
    large = large_objects.DIMENSIONS[name](SIZE)
    driver = one_object.a_cluster(8)
    for item in large.before:
        one_object.create(driver, item)
    one_object.others(driver, "other")
    shapes = []
    for item in one_object.stages_of(large)[:2]:
        item["spec"]["containers"][0]["image"] = "registry.example/large:1"  # or others might have the same shape
        one_object.appear(driver, item)
        shapes += [weakref.ref(pod.shape) for pod in driver.pods() if pod.name == "large"]
        one_object.leave(driver, item)
    driver.events.clear()
    one_object.others(driver, "other")
    gc.collect()
    assert [shape() for shape in shapes] == [None] * 2
    nodes = driver.scheduler.core.cluster.nodes
    assert len(nodes.tallies.kept()) < 10
    assert len(nodes.tallies.terms.carried) + len(nodes.tallies.terms._arrivals) < 10
    supplied = [name for item in large.before if item["kind"] == "Node" for name in item["status"]["allocatable"]]
    assert len(nodes.amounts.requested) == 4 + sum("/" in name for name in supplied)  # nodes that stay keep their lines
    assert check_table(nodes) == []
