"""The busiest moment of arrivals: which pods run then, counted by hand."""

from typing import Any

import pytest

from mooring.answers.plan.demand import pods_at_peak
from mooring.inputs.arrivals import arrivals_of


def arrival(name: str, at: int, run: int | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "at": at, **({} if run is None else {"run": run}), **more}


@pytest.mark.parametrize(
    ("entries", "busiest"),
    [
        ([], []),
        ([arrival("a", 5, 10, cpu="1"), arrival("b", 20, 10, cpu="1")], ["a"]),
        ([arrival("a", 5, 10, cpu="1"), arrival("b", 20, 10, cpu="1001m")], ["b"]),
        ([arrival("a", 5, cpu="1"), arrival("b", 20, 10, cpu="1")], ["a", "b"]),
        ([arrival("a", 5, cpu="1"), arrival("b", 20, 10, cpu="1"), arrival("c", 40, cpu="1")], ["a", "b"]),
        ([arrival("a", 5, 15, cpu="1"), arrival("b", 20, 10, cpu="2")], ["b"]),
        ([arrival("a", 5, 16, cpu="1"), arrival("b", 20, 10, cpu="2")], ["a", "b"]),
        (
            [arrival("large", 0, 10, cpu="8"), arrival("s1", 100, 10, cpu="1"), arrival("s2", 100, 10, cpu="1")],
            ["large"],
        ),
        ([arrival("a", 0, 10), arrival("b", 20, 10), arrival("c", 20, 10)], ["b", "c"]),
        ([arrival("a", 5, 10, cpu="0"), arrival("b", 20, 10, cpu="0"), arrival("c", 21, 10)], ["b", "c"]),
        (
            [
                arrival("cpu", 0, 10, cpu="6"),
                arrival("both", 20, 10, cpu="4", memory="1Gi"),
                arrival("memory", 40, 10, memory="2Gi"),
            ],
            ["both"],
        ),
    ],
    ids=[
        "nothing comes",
        "of two equal moments the first",
        "a little more is more",
        "a pod without an end runs on",
        "as many at the end as in the middle: the first moment counts",
        "one that ends when another comes makes room",
        "one that ends later runs with it",
        "requests count, not pods",
        "pods without requests count by number",
        "and so do requests of nothing",
        "shares of all resources are added: 0.6, 0.4 + 0.33 and 0.67",
    ],
)
def test_the_pods_of_the_busiest_moment(entries: list[dict[str, Any]], busiest: list[str]) -> None:
    assert [pod.name.removesuffix("-0") for pod in pods_at_peak(arrivals_of(entries, []) if entries else [])] == busiest
