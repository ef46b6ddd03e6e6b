"""Pods in the order of their importance: columns against a plain sort, through random changes."""

from functools import cmp_to_key
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes import ranks as ranks_module
from mooring.cluster.nodes.ranks import NO_POD, NOT_STARTED_NS, PodRanks, by_importance, parse_time_ns, start_ns
from mooring.cluster.nodes.table import NodeTable
from mooring.model.pod import Pod

NODES = ("n0", "n1", "n2")
GPU = "example.com/gpu"
SECOND = 1_000_000_000


def a_runner(name: str, priority: int, second: int | None, cpus: int = 0, gpus: int = 0) -> Pod:
    """A pod that started in this second of 1970, or has not."""
    status = {} if second is None else {"startTime": f"1970-01-01T00:00:{second:02}Z"}
    return a_pod(name, cpu=str(cpus), requests={GPU: gpus} if gpus else None, priority=priority, status=status)


ORDERS = {
    "the higher priority comes first": ([("a", 1, 1), ("b", 2, 9)], "ba"),
    "of equal priority the longest running comes first": ([("a", 1, 9), ("b", 1, 3), ("c", 1, 5)], "bca"),
    "equal in both stay in order of arrival": ([("a", 1, 3), ("b", 1, 3), ("c", 1, 3)], "abc"),
    "one that has not started comes after those that have": ([("a", 1, None), ("b", 1, 59)], "ba"),
    "v1.37, 12.2: those that have not started stay in order of arrival": (
        [("a", 1, None), ("b", 1, None), ("c", 1, None)],
        "abc",
    ),
    "priority goes before having started": ([("a", 1, 3), ("b", 2, None)], "ba"),
    "a negative priority comes last": ([("a", -1, 1), ("b", 0, None)], "ba"),
    "nobody is in no order": ([], ""),
}


@pytest.mark.parametrize(("pods", "order"), ORDERS.values(), ids=ORDERS.keys())
def test_importance(pods: list[tuple[str, int, int | None]], order: str) -> None:
    assert "".join(pod.name for pod in by_importance([a_runner(*pod) for pod in pods])) == order


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        pytest.param("1970-01-01T00:00:07Z", 7 * SECOND, id="a time in UTC"),
        pytest.param("1970-01-01T02:00:07+02:00", 7 * SECOND, id="a time with an offset"),
        pytest.param("1970-01-01T00:00:00.000001Z", 1000, id="a microsecond"),
        pytest.param("soon", 0, id="what is no time is long ago"),
    ],
)
def test_times_are_nanoseconds_since_1970(text: str, ns: int) -> None:
    assert parse_time_ns(text) == ns
    assert start_ns(a_pod(status={"startTime": text})) == ns


def test_a_pod_that_has_not_started_started_later_than_any() -> None:
    assert start_ns(a_pod()) == NOT_STARTED_NS > start_ns(a_pod(status={"startTime": "2200-01-01T00:00:00Z"}))


def sorted_plainly(pods: list[Pod]) -> list[Pod]:
    """By comparing two at a time, as the specification says it; later arrivals first among those not started."""

    def compare(one: tuple[int, Pod], other: tuple[int, Pod]) -> int:
        (i, a), (j, b) = one, other
        if a.priority != b.priority:
            return b.priority - a.priority
        begun_a, begun_b = a.status.start_time, b.status.start_time
        if begun_a is None and begun_b is None:
            return j - i
        if begun_a is None or begun_b is None:
            return 1 if begun_a is None else -1
        if begun_a != begun_b:
            return 1 if begun_a > begun_b else -1  # all are written alike, so text sorts as time
        return i - j

    return [pod for _, pod in sorted(enumerate(pods), key=cmp_to_key(compare))]


STEP = st.one_of(
    st.tuples(
        st.just("place"),
        st.sampled_from(NODES),
        st.integers(-2, 2),
        st.one_of(st.none(), st.integers(0, 4)),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    st.tuples(st.just("displace"), st.integers(0, 30)),
    st.tuples(st.just("crowd"), st.integers(60, 70)),
    st.tuples(st.just("refresh")),
)


@given(st.lists(STEP, max_size=30), st.sampled_from([1, 2, ranks_module.MANY_ROWS]))
def test_the_columns_follow_the_table(steps: list[tuple[object, ...]], many_rows: int) -> None:
    with mock.patch.object(ranks_module, "MANY_ROWS", many_rows):
        follow_the_table(steps)


def follow_the_table(steps: list[tuple[object, ...]]) -> None:
    nodes = NodeTable()
    for name in NODES:
        nodes.put_node(a_node(name))
    ranks = PodRanks(nodes)
    for count, step in enumerate(steps):
        match step:
            case ("place", str(node), int(priority), (None | int()) as second, int(cpus), int(gpus)):
                nodes.place(a_runner(f"p{count}", priority, second, cpus, gpus), node)
            case ("displace", int(place)) if nodes.pods():
                nodes.displace(nodes.pods()[place % len(nodes.pods())].id)
            case ("crowd", int(more)):  # more rows than the columns had room for
                for i in range(more):
                    nodes.put_node(a_node(f"crowd{i}"))
            case ("refresh",):
                ranks.refresh()
                compare_with_table(ranks)
    ranks.refresh()
    compare_with_table(ranks)


def compare_with_table(ranks: PodRanks) -> None:
    nodes = ranks.nodes
    for name in NODES:
        row = nodes.row_book[name]
        expected = sorted_plainly(nodes.pods_on[row])
        slots = len(ranks.priority)
        empty = slots - len(expected)
        assert ranks.pods(row) == expected
        assert ranks.priority[:, row].tolist() == [pod.priority for pod in expected] + [NO_POD] * empty
        assert ranks.start_ns[:, row].tolist() == [start_ns(pod) for pod in expected] + [0] * empty
        for resource, index in nodes.amounts.resource_book.items():
            held = [pod.shape.held.get(resource, (0, 0))[0] for pod in expected]
            assert ranks.request[index, :, row].tolist() == held + [0] * empty


def test_an_object_with_another_start_time_is_ranked_by_it() -> None:
    nodes = NodeTable()
    nodes.put_node(a_node("n0"))
    first, second = a_runner("a", 1, 5), a_runner("b", 1, None)
    nodes.place(first, "n0")
    nodes.place(second, "n0")
    ranks = PodRanks(nodes)
    ranks.refresh()
    assert ranks.pods(0) == [first, second]
    seen = a_runner("b", 1, 2)
    assert nodes.exchange(seen)
    ranks.refresh()
    assert ranks.pods(0) == [seen, first]
