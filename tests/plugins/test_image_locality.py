"""ImageLocality: the worked examples, and which names count."""

from typing import Any

import pytest

from alone import build, scores
from build import a_cluster, a_node, a_pod
from mooring.model.pod import Pod
from mooring.plugins.nodes.image_locality import ImageLocality

MIB = 1 << 20


def with_images(*images: str, **more: Any) -> Pod:
    return a_pod(containers=[{"name": f"c{i}", "image": image} for i, image in enumerate(images)], **more)


def given(pod: Pod, *nodes: dict[str, int]) -> list[int]:
    """The scores of nodes that have these images (sizes in MiB)."""
    cluster = a_cluster(
        *(a_node(f"n{i}", images={name: size * MIB for name, size in images.items()}) for i, images in enumerate(nodes))
    )
    found = scores(build(ImageLocality), pod, cluster)
    assert isinstance(found, dict)
    return list(found.values())


EXAMPLES: dict[str, tuple[Pod, list[dict[str, int]], list[int]]] = {
    "500 MiB on one of four nodes": (with_images("a:1"), [{"a:1": 500}, {}, {}, {}], [10, 0, 0, 0]),
    "20 MiB is too little to count": (with_images("a:1"), [{"a:1": 20}], [0]),
    "two of 1 GiB everywhere": (with_images("a:1", "b:1"), [{"a:1": 1024, "b:1": 1024}] * 3, [100, 100, 100]),
    "800 MiB on two of three nodes, of two containers": (
        with_images("a:1", "b:1"),
        [{"a:1": 800}, {"a:1": 800}, {}],
        [25, 25, 0],
    ),
    "an image that two containers use counts twice": (with_images("a:1", "a:1"), [{"a:1": 800}], [79]),
    "the size that was seen first counts for all": (with_images("a:1"), [{"a:1": 500}, {"a:1": 900}], [48, 48]),
    "no image is anywhere": (with_images("a:1"), [{}, {}], [0, 0]),
    "init containers count": (
        with_images("a:1", initContainers=[{"name": "init", "image": "b:1"}]),
        [{"b:1": 1024}],
        [50],
    ),
    "v1.37, 11.5: image volumes count, and raise the limit": (
        with_images("a:1", volumes=[{"name": "v", "image": {"reference": "b:1"}}]),
        [{"b:1": 500}],
        [24],
    ),
}


@pytest.mark.parametrize(("pod", "nodes", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_what_images_are_worth(pod: Pod, nodes: list[dict[str, int]], expected: list[int]) -> None:
    assert given(pod, *nodes) == expected


NAMES: dict[str, tuple[str, str, bool]] = {
    "no tag means latest": ("app", "app:latest", True),
    "a tag stays": ("app:2", "app:2", True),
    "another tag": ("app:2", "app:3", False),
    "the port of a registry is no tag": ("host:5000/app", "host:5000/app:latest", True),
    "a tag after a port": ("host:5000/app:1", "host:5000/app:1", True),
    "a digest stays": ("app@sha256:abc", "app@sha256:abc", True),
    "names on nodes are taken as they are": ("app", "app", False),
}


@pytest.mark.parametrize(("wanted", "there", "found"), NAMES.values(), ids=NAMES.keys())
def test_names(wanted: str, there: str, found: bool) -> None:
    assert (given(with_images(wanted), {there: 1024}) == [100]) == found


def test_a_node_judges_by_the_count_of_the_last_time_it_changed() -> None:
    """500 MiB on one of one node is all of it; a second node that has it is seen by the first only when that changes."""
    cluster, plugin = a_cluster(a_node("a", images={"x:1": 500 * MIB})), build(ImageLocality)
    assert scores(plugin, with_images("x:1"), cluster) == {"a": 48}
    cluster.put(a_node("b", images={"x:1": 500 * MIB}))
    assert scores(plugin, with_images("x:1"), cluster) == {"a": 23, "b": 48}
    cluster.nodes.place(a_pod("other"), "a")
    assert scores(plugin, with_images("x:1"), cluster) == {"a": 48, "b": 48}
