"""One large object costs time in proportion to its size, and the others next to nothing: counted in lines of Python that run.

The objects are those of benchmarks/one_object.py, which measures the same in seconds and bytes.
"""

import gc
import sys
from functools import partial
from pathlib import Path

import pytest

from counted_lines import lines_run
from how_many import some_of

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import large_objects
import one_object

pytestmark = pytest.mark.slow

SIZES = (150, 300, 600)
"""More than FEW_PREDICATES and other limits below which small pods are served in another way."""
NEGLIGIBLE = 4000
"""Lines. What grows by less than this is not worth a look, and too little to tell how it grows."""


def work(name: str, size: int) -> int:
    """Lines for the object itself, when it comes, is tried and goes. Ordinary pods are served while it is there."""
    gc.collect()  # or else what an earlier cluster has interned may still be there, and is found instead of made
    large = large_objects.DIMENSIONS[name](size)
    driver = one_object.a_cluster(12)
    for item in large.before:
        one_object.create(driver, item)
    one_object.others(driver, "warm")
    own = 0
    for item in one_object.stages_of(large):
        own += lines_run(partial(one_object.appear, driver, item))
        one_object.others(driver, "other")
        own += lines_run(partial(one_object.leave, driver, item))
    return own


BOUNDED = {"too_many_resource_claims"}
"""The search for devices that are not there has so many steps and no more: millions of lines, whatever the size."""


@pytest.mark.parametrize("name", some_of([name for name in large_objects.DIMENSIONS if name not in BOUNDED], fewest=3))
def test_work_is_linear_in_the_size_of_one_object(name: str) -> None:
    work(name, 10)  # what is loaded or worked out when it is first needed
    first, second, third = (work(name, size) for size in SIZES)
    assert third - second <= max(2.5 * (second - first), NEGLIGIBLE)


OF_A_PLACED_POD = [name for name, build in large_objects.DIMENSIONS.items() if build(1).item["kind"] == "Pod"]
FOR_EACH_CASE = 60
"""Lines for each entry of a large pod on a node that others may run once for each case that their labels make."""


@pytest.mark.parametrize("name", some_of([name for name in OF_A_PLACED_POD if name not in BOUNDED], fewest=2))
def test_others_hardly_notice_a_large_pod_on_a_node(name: str) -> None:
    small, large = (others_beside(name, size) for size in (SIZES[0], SIZES[-1]))
    assert large - small <= FOR_EACH_CASE * (SIZES[-1] - SIZES[0])


def others_beside(name: str, size: int) -> int:
    """Lines for twenty ordinary pods, from their coming to their going."""
    item = one_object.stages_of(large_objects.DIMENSIONS[name](size))[1]
    driver = one_object.a_cluster(12)
    one_object.create(driver, item)
    return lines_run(partial(one_object.others, driver, "other"))
