"""Tallies of pods that come and go are those of a loop over the pods, whichever tallies had to make room for others."""

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes.check import check_table
from mooring.cluster.pods import tally
from mooring.cluster.pods.tallies import PodTallies
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector, Requirement
from mooring.model.selectors import compile_selector
from placed_pods import PlacedPods

NODES = ("n0", "n1", "n2")
LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("a", "b")))
RULES = st.builds(
    lambda key, operator, values: Requirement(key, operator, values if "In" in operator else None),
    st.sampled_from(("app", "tier")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(("a", "b")), min_size=1),
)
PREDICATES = st.lists(RULES, max_size=4).map(
    lambda rules: PodPredicate(compile_selector(LabelSelector(match_expressions=rules)), frozenset(("default",)))
)
PODS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), PODS, st.tuples(st.sampled_from(NODES), LABELS, st.booleans())),
        st.tuples(st.just("remove"), PODS, st.none()),
        st.tuples(st.just("ask"), PREDICATES, st.booleans()),
    ),
    max_size=30,
)


class World(PlacedPods):
    """The steps, on three nodes."""

    def __init__(self) -> None:
        super().__init__()
        for name in NODES:
            self.table.put_node(a_node(name, labels={"host": name}))

    def place(self, number: int, how: tuple[str, dict[str, str], bool]) -> None:
        node, labels, is_leaving = how
        metadata = {"deletionTimestamp": "2026-02-01T00:00:00Z"} if is_leaving else None
        self.put(number, a_pod(f"p{number}", labels=labels, metadata=metadata), node)

    def ask(self, predicate: PodPredicate, with_terminating: bool) -> None:
        found = self.table.tallies.matching((predicate,), with_terminating)
        expected = dict.fromkeys(NODES, 0)
        for pod, node in self.pods.values():
            is_counted = predicate.holds(pod.namespace, pod.labels) and (with_terminating or not pod.is_terminating)
            expected[node] += is_counted
        assert {name: int(found.counts[self.table.row_book[name]]) for name in NODES} == expected
        column = self.table.labels.column("host")
        by_value = found.by_value(column)
        assert {name: int(by_value[column.value_book[name]]) for name in NODES} == expected
        assert found.total == sum(expected.values())


def test_selectors_that_exclude_few_pods_share_a_tally_of_all() -> None:
    """Each pod is counted in the tally of all and in that of its own tenant, however many tenants exclude the others."""
    world = World()
    for number in range(50):
        world.place(number, ("n0", {"tenant": f"t{number}"}, False))
    for number in range(50):
        rules = [Requirement("tenant", "Exists", None), Requirement("tenant", "NotIn", [f"t{number}"])]
        selector = compile_selector(LabelSelector(match_expressions=rules))
        world.ask(PodPredicate(selector, frozenset(("default",))), True)
    assert len(world.table.tallies._predicates) == 1 + 50
    links = [where.tallies for where in world.table.tallies._label_sets.values()]
    assert [len(each or ()) for each in links] == [2] * 50


@given(STEPS, st.sampled_from((0, 64)))
def test_tallies_are_those_of_a_loop(steps: list[tuple[str, Any, Any]], few_rows: int) -> None:
    world = World()
    with mock.patch.object(PodTallies, "LIMIT", 2), mock.patch.object(tally, "FEW_ROWS", few_rows):
        for name, *what in steps:
            getattr(world, name)(*what)
    assert check_table(world.table) == []
