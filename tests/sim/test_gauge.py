"""The sums of what pods request: followed row by row, and equal to a sum over all rows."""

from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes.table import NodeTable
from mooring.sim.gauge import RequestedSums

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 9), st.booleans()), max_size=40)


def sums_by_loop(nodes: NodeTable) -> list[int]:
    return [sum(int(amount) for amount in line) for line in nodes.amounts.requested]


@given(CHANGES)
def test_sums_that_follow_rows_equal_sums_over_all_rows(changes: list[tuple[str, int, int, bool]]) -> None:
    nodes = NodeTable()
    for name in "ab":
        nodes.put_node(a_node(name, allocatable={"example.com/gpu": 9}))
    sums, there = RequestedSums(nodes), set[str]()
    for number, (node, pod, amount, reads) in enumerate(changes):
        name = f"p{pod}"
        if name in there:
            nodes.displace(f"default/{name}")
            there.remove(name)
        else:
            asked = {"example.com/gpu": amount} if pod % 2 else {}
            nodes.place(a_pod(name, cpu=str(amount), memory="1Gi", requests=asked), node)
            there.add(name)
        if number == 5:
            nodes.amounts.resource("example.com/gpu")  # from now on it has a place
        if reads:
            assert sums.refresh() == sums_by_loop(nodes)
    assert sums.refresh() == sums_by_loop(nodes)


def test_a_reader_that_stayed_away_too_long_starts_over() -> None:
    nodes = NodeTable()
    nodes.put_node(a_node("n"))
    sums = RequestedSums(nodes)
    assert sums.refresh() == sums_by_loop(nodes)
    pod = a_pod("p", cpu="1")
    for _ in range(nodes.touches.LIMIT):
        nodes.place(pod, "n")
        nodes.displace(pod.id)
    nodes.place(pod, "n")
    assert nodes.touches.since(1) is None
    assert sums.refresh() == sums_by_loop(nodes)
