"""Nodes in use over time, and what they cost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.answers.compare.node_use import NodesInUse, node_prices, prices_of, read_prices
from mooring.cluster.cluster import Cluster
from mooring.inputs.input_errors import InputError
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
    assert node_prices(nodes, {"m5.large": 0.1, "b": 0.2}) == {"a": 0.1, "b": 0.2, "c": 0.5}
    assert node_prices(nodes[:2], None) == {}, "no price at all is no problem"
    assert node_prices(nodes[2:], None) == {"c": 0.5}
    nodes[2].metadata.annotations = {"mooring.dev/price": "0.7"}
    assert node_prices(nodes[2:], None) == {"c": 0.7}


def test_prices_of_some_nodes_only_are_refused() -> None:
    nodes = [a_node("a"), a_node("b", labels={"mooring.dev/price": "cheap"}), a_node("c")]
    with pytest.raises(InputError) as caught:
        node_prices(nodes, {"a": 1})
    assert str(caught.value) == (
        "prices: no price for 2 nodes: b, c; add them by instance type (the label node.kubernetes.io/instance-type) "
        "or by name, or give the nodes a label mooring.dev/price"
    )


def test_a_file_of_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    for text in ("m5.large: 0.1\nc: 2\n", "prices: {m5.large: 0.1, c: 2}"):
        path.write_text(text)
        assert read_prices(str(path)) == {"m5.large": 0.1, "c": 2.0}


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
