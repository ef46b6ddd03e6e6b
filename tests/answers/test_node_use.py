"""Nodes in use over time, and what they cost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.answers.experiments.compared_run import NodesInUse
from mooring.answers.trial.node_prices import node_prices
from mooring.cluster.cluster import Cluster
from mooring.inputs.input_errors import InputError
from mooring.inputs.offers.offer_files import prices_of, read_prices
from mooring.inputs.offers.price_list import PriceList
from mooring.model.pod import Pod

OWNER = {
    "ownerReferences": [{"kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "controller": True, "uid": "1"}]
}


def on(node: str, name: str, is_daemon: bool = False) -> Pod:
    return a_pod(name, nodeName=node, metadata=OWNER if is_daemon else None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans(), st.integers(0, 10)), max_size=30))
def test_time_in_use_and_its_twin(steps: list[tuple[int, int, bool, int]]) -> None:
    """Steps: on which node which pod comes, or goes if it is there; whether a DaemonSet has it; how much time passes."""
    cluster = Cluster()
    for i in range(4):
        cluster.put(a_node(f"n-{i}"))
    gauge, now_ns, there = NodesInUse(cluster.nodes, 0), 0, dict[str, bool]()
    expected: dict[str, int] = {}
    for node, number, is_daemon, passed_ns in steps:
        pod = on(f"n-{node}", f"{node}-{number}", is_daemon)
        if pod.key in there:
            del there[pod.key]
            cluster.nodes.displace(pod.id)
        else:
            there[pod.key] = is_daemon
            cluster.nodes.place(pod, f"n-{node}")
        gauge.read(now_ns)
        used = {f"n-{key.partition('/')[2][0]}" for key, for_one in there.items() if not for_one}
        for name in used:
            expected[name] = expected.get(name, 0) + passed_ns
        now_ns += passed_ns
    assert gauge.used_ns(now_ns) == expected
    assert gauge.used_ns(now_ns) == expected, "asking changes nothing"


# ---- prices


def test_prices_are_by_name_or_instance_type_or_on_the_nodes_themselves() -> None:
    label = {"node.kubernetes.io/instance-type": "m5.large"}
    nodes = [a_node("a", labels=label), a_node("b", labels=label), a_node("c", labels={"mooring.dev/price": "0.5"})]
    assert node_prices(nodes, PriceList({"m5.large": 0.1, "b": 0.2})) == {"a": 0.1, "b": 0.2, "c": 0.5}
    assert node_prices(nodes[:2], None) == {}, "no price at all is no problem"
    assert node_prices(nodes[2:], None) == {"c": 0.5}
    nodes[2].metadata.annotations = {"mooring.dev/price": "0.7"}
    assert node_prices(nodes[2:], None) == {"c": 0.7}


def test_prices_of_some_nodes_only_are_refused() -> None:
    nodes = [a_node("a"), a_node("b", labels={"mooring.dev/price": "cheap"}), a_node("c")]
    with pytest.raises(InputError) as caught:
        node_prices(nodes, PriceList({"a": 1}))
    assert str(caught.value) == (
        "prices: no price for 2 nodes: b, c; add them by instance type (the label node.kubernetes.io/instance-type) "
        "or by name, or give the nodes a label mooring.dev/price"
    )


def test_a_file_of_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    for text in ("m5.large: 0.1\nc: 2\n", "prices: {m5.large: 0.1, c: 2}"):
        path.write_text(text)
        assert read_prices(str(path)).by_name == {"m5.large": 0.1, "c": 2.0}


WRONG = {
    "[1]": "p.yaml: Invalid value: a list: must be an object with a price an hour for each instance type",
    "a: -1\nb: x\nc: .nan\nd: true": "p.yaml: prices[a]: Invalid value: -1: must be a number from 0\n"
    'p.yaml: prices[b]: Invalid value: "x": must be a number from 0\n'
    "p.yaml: prices[c]: Invalid value: nan: must be a number from 0\n"
    "p.yaml: prices[d]: Invalid value: true: must be a number from 0",
    "a: [": "p.yaml:",
}


@pytest.mark.parametrize(("text", "expected"), WRONG.items(), ids=["a list", "no numbers", "no YAML"])
def test_prices_that_cannot_be_used(text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_prices("p.yaml")
    assert str(caught.value).startswith(expected)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"^/nowhere: cannot be read: No such file or directory$"):
        read_prices("/nowhere")
    assert prices_of({}) == {}


def test_a_node_that_is_removed_is_no_longer_in_use() -> None:
    cluster = Cluster()
    cluster.put(a_node("a"))
    cluster.put(on("a", "pod"))
    gauge = NodesInUse(cluster.nodes, 100)
    cluster.nodes.remove_node("a")
    gauge.read(107)
    assert gauge.used_ns(200) == {"a": 7}


def test_a_node_that_takes_the_row_of_another_has_its_own_time() -> None:
    cluster = Cluster()
    cluster.put(a_node("a"))
    old = on("a", "old")
    cluster.put(old)
    gauge = NodesInUse(cluster.nodes, 100)
    cluster.nodes.displace(old.id)
    cluster.nodes.remove_node("a")
    cluster.put(a_node("b"))
    cluster.put(on("b", "new"))
    assert cluster.nodes.row_book["b"] == 0, "the row is used again"
    gauge.read(107)
    assert gauge.used_ns(110) == {"a": 7, "b": 3}


def test_a_node_that_is_gone_without_a_trace_keeps_its_time() -> None:
    cluster = Cluster()
    cluster.put(a_node("a"))
    cluster.put(old := on("a", "old"))
    gauge = NodesInUse(cluster.nodes, 100)
    cluster.nodes.displace(old.id)
    cluster.nodes.remove_node("a")
    assert gauge.used_ns(107) == gauge.used_ns(110) == {"a": 7}


def test_a_node_that_is_in_use_at_first_counts_from_then_on() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.put(a_node(name))
    cluster.put(on("a", "pod"))
    cluster.put(on("b", "agent", is_daemon=True))
    gauge = NodesInUse(cluster.nodes, 100)
    cluster.put(on("b", "later"))
    assert gauge.used_ns(110) == {"a": 10, "b": 0}, "the second pod is seen at the end"
    assert gauge.used_ns(115) == {"a": 15, "b": 5}


def test_prices_on_some_nodes_only_are_refused_and_on_none_are_not() -> None:
    nodes = [a_node("a"), a_node("b", labels={"mooring.dev/price": "1"})]
    with pytest.raises(InputError, match=r"^prices: no price for 1 node: a; add them by instance type"):
        node_prices(nodes, None)
    with pytest.raises(InputError, match=r"^prices: no price for 1 node: a; add them by instance type"):
        node_prices(nodes[:1], PriceList({}))
    assert node_prices(nodes[:1], None) == node_prices([], PriceList({})) == {}


@pytest.mark.parametrize(
    ("written", "price"),
    [("0", 0.0), ("1.5", 1.5), ("", None), ("-1", None), ("1e15", None), ("nan", None), ("cheap", None)],
)
def test_a_price_on_a_node_is_a_number_from_0(written: str, price: float | None) -> None:
    node = a_node("a", labels={"mooring.dev/price": written})
    assert node_prices([node], None) == ({} if price is None else {"a": price})


def test_prices_have_limits_and_may_be_of_a_type_called_prices() -> None:
    assert prices_of({"a": 0, "b": 999999999999999}) == {"a": 0.0, "b": 999999999999999.0}
    assert prices_of({"prices": 3, "b": 1}) == {"prices": 3.0, "b": 1.0}
    assert prices_of({5: 3}) == {"5": 3.0}
    with pytest.raises(InputError) as caught:
        prices_of({"a": 10**15, "b": 1, "c": True})
    assert str(caught.value) == (
        "prices[a]: Invalid value: 1000000000000000: must be a number from 0\n"
        "prices[c]: Invalid value: true: must be a number from 0"
    )
    with pytest.raises(InputError) as other:
        prices_of("m5")
    assert str(other.value) == ('Invalid value: "m5": must be an object with a price an hour for each instance type')


def test_a_file_of_prices_has_a_mebibyte_at_most(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("a: 1\n" + "#" * ((1 << 20) - 5))
    assert read_prices(str(path)).by_name == {"a": 1.0}
    path.write_text("a: 1\n" + "#" * ((1 << 20) - 4))
    with pytest.raises(InputError) as caught:
        read_prices(str(path))
    assert str(caught.value) == f"{path}: has more than 1 MiB; write prices by instance type"


def test_a_fault_of_the_yaml_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("a: 1\nb: }\n")
    with pytest.raises(InputError) as caught:
        read_prices(str(path))
    assert str(caught.value).startswith(f"{path}:2: column 4: the text does not parse ")


def test_of_a_type_that_is_written_twice_the_last_price_counts(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("a: 1\na: 2\n")
    assert read_prices(str(path)).by_name == {"a": 2.0}


def test_a_price_of_the_empty_name_is_for_no_node() -> None:
    assert node_prices([a_node("a", labels={"mooring.dev/price": "2"})], PriceList({"": 5.0})) == {"a": 2.0}
