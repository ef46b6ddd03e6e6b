"""The plugins that only keep a place: where they stand, that they do nothing, and which pods they would concern."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mooring.framework.cycle import CycleState
from mooring.framework.points import POINTS, Handle
from mooring.framework.status import SKIP
from mooring.model.pod import Pod
from mooring.plugins.unbuilt import UNBUILT, DynamicResources, Unbuilt

PLACES = {
    "DynamicResources": {"preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"},
}
NO_CYCLE: Any = None
NO_ROWS = slice(0, 0)


def a_pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


def build(kind: type[Unbuilt]) -> Any:
    return kind(None, Handle())


def test_each_extends_the_points_that_upstream_has_it_at() -> None:
    extended = {kind.name: {point for point, abc in POINTS.items() if issubclass(kind, abc)} for kind in UNBUILT}
    assert extended == PLACES


@pytest.mark.parametrize("kind", [kind for kind in UNBUILT if "filter" in PLACES[kind.name]])
def test_filters_skip_every_pod(kind: type[Unbuilt]) -> None:
    plugin = build(kind)
    assert plugin.pre_filter(SimpleNamespace(state=CycleState())) is SKIP
    assert plugin.filter(NO_CYCLE, NO_ROWS) is None
    with pytest.raises(NotImplementedError, match=f"^plugin {kind.name}: rejecting a node is not built yet$"):
        plugin.rejection(NO_CYCLE, 1)


def test_dynamic_resources_scores_zero() -> None:
    assert build(DynamicResources).score(NO_CYCLE, NO_ROWS) is None
    assert not hasattr(DynamicResources, "pre_score")


def test_nothing_is_reserved() -> None:
    plugin = build(DynamicResources)
    assert plugin.reserve(NO_CYCLE, "n") is None
    assert plugin.unreserve(NO_CYCLE, "n") is None
    assert plugin.pre_bind(NO_CYCLE, "n") is None


def test_no_pod_is_held_back() -> None:
    assert build(DynamicResources).pre_enqueue(a_pod()) is None


CONCERNED: dict[str, tuple[Pod, set[str]]] = {
    "a plain pod": (a_pod(volumes=[{"name": "v"}]), set()),
    "a pod with devices": (a_pod(resourceClaims=[{"name": "gpu"}]), {"DynamicResources"}),
    "a pod with an empty list of devices": (a_pod(resourceClaims=[]), set()),
}


@pytest.mark.parametrize(("pod", "plugins"), CONCERNED.values(), ids=CONCERNED.keys())
def test_who_is_concerned(pod: Pod, plugins: set[str]) -> None:
    assert {kind.name for kind in UNBUILT if kind.concerns(pod)} == plugins
