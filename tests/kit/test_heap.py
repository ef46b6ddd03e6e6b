"""The keyed heap against a plain list that is sorted anew each time."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.kit.heap import KeyedHeap


@dataclass(frozen=True)
class Item:
    key: str
    rank: int


def a_heap(*items: Item) -> KeyedHeap[Item]:
    heap: KeyedHeap[Item] = KeyedHeap(lambda item: item.rank)
    for item in items:
        heap.push(item)
    return heap


def drained(heap: KeyedHeap[Item]) -> list[str]:
    names = []
    while (item := heap.pop()) is not None:
        names.append(item.key)
    return names


def test_items_come_out_in_the_order_of_their_keys() -> None:
    assert drained(a_heap(Item("a", 3), Item("b", 1), Item("c", 2))) == ["b", "c", "a"]


def test_equal_items_come_out_as_they_went_in() -> None:
    assert drained(a_heap(*(Item(name, 0) for name in "zaymb"))) == list("zaymb")


def test_an_item_that_is_pushed_again_is_replaced_and_keeps_its_turn_among_equals() -> None:
    heap = a_heap(Item("a", 1), Item("b", 1), Item("c", 1))
    heap.push(Item("a", 2))
    assert heap.get("a") == Item("a", 2)
    heap.push(Item("a", 1))
    assert (len(heap), drained(heap)) == (3, ["a", "b", "c"])


def test_a_removed_item_is_gone_and_comes_last_among_equals_when_it_returns() -> None:
    heap = a_heap(Item("a", 1), Item("b", 1))
    assert heap.remove("a") == Item("a", 1)
    assert ("a" in heap, heap.get("a"), heap.remove("a")) == (False, None, None)
    heap.push(Item("a", 1))
    assert drained(heap) == ["b", "a"]


def test_looking_at_the_first_item_leaves_it_there() -> None:
    heap = a_heap(Item("a", 2), Item("b", 1))
    heap.remove("b")
    assert (heap.peek(), heap.peek(), len(heap)) == (Item("a", 2), Item("a", 2), 1)


def test_an_empty_heap_gives_nothing() -> None:
    heap = a_heap()
    assert (heap.peek(), heap.pop(), len(heap), list(heap)) == (None, None, 0, [])


def test_iterating_goes_by_arrival_and_sorted_by_turn() -> None:
    heap = a_heap(Item("a", 3), Item("b", 1), Item("c", 2))
    heap.push(Item("a", 0))
    assert [item.key for item in heap] == ["a", "b", "c"]
    assert [item.key for item in heap.sorted()] == ["a", "b", "c"]
    heap.push(Item("a", 9))
    assert [item.key for item in heap.sorted()] == ["b", "c", "a"]


def test_items_that_cannot_be_compared_need_not_be() -> None:
    heap: KeyedHeap[Item] = KeyedHeap(lambda item: 0)
    heap.push(Item("a", 1))
    heap.push(Item("b", 2))
    heap.push(Item("a", 3))
    assert heap.pop() == Item("a", 3)


def test_leftovers_do_not_pile_up() -> None:
    heap = a_heap(Item("stays", 0))
    for rank in range(10_000):
        heap.push(Item("a", rank))
    heap.remove("a")
    assert heap.check() == []


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param("cba", "an item stands before one that it should follow", id="all but the first out of order"),
        pytest.param("ab", "the items that came in order are not in order", id="in order"),
    ],
)
def test_the_check_finds_an_item_that_is_lost_and_one_out_of_order(keys: str, said: str) -> None:
    ranks = {"a": [1], "b": [2], "c": [3]}
    heap: KeyedHeap[Item] = KeyedHeap(lambda item: ranks[item.key])
    for key in keys:
        heap.push(Item(key, 0))
    assert heap.check() == []
    ranks["a"][0] = 9  # behind the back of the heap
    assert heap.check() == [f"heap: {said}"]
    ranks["a"][0] = 1
    heap.live["b"] = (*heap.live["b"],)
    assert heap.check() == ["heap: b is not in it"]


class HeapMachine(RuleBasedStateMachine):
    """Any sequence of operations does to the heap what it does to a list."""

    names = st.sampled_from([f"n{number}" for number in range(8)])
    ranks = st.integers(0, 3)

    def __init__(self) -> None:
        super().__init__()
        self.heap = a_heap()
        self.model: list[tuple[int, Item]] = []
        """(sequence of the name, item), in no order."""
        self.sequence = 0

    def _order(self) -> list[Item]:
        return [item for _, item in sorted(self.model, key=lambda pair: (pair[1].rank, pair[0]))]

    @rule(name=names, rank=ranks)
    def push(self, name: str, rank: int) -> None:
        item = Item(name, rank)
        self.heap.push(item)
        for index, (sequence, old) in enumerate(self.model):
            if old.key == name:
                self.model[index] = (sequence, item)
                return
        self.sequence += 1
        self.model.append((self.sequence, item))

    @rule()
    def pop(self) -> None:
        first = next(iter(self._order()), None)
        assert self.heap.peek() == first
        assert self.heap.pop() == first
        self.model = [pair for pair in self.model if pair[1] != first]

    @rule(name=names)
    def remove(self, name: str) -> None:
        there = next((item for _, item in self.model if item.key == name), None)
        assert (name in self.heap) == (there is not None)
        assert self.heap.get(name) == there
        assert self.heap.remove(name) == there
        self.model = [pair for pair in self.model if pair[1].key != name]

    @invariant()
    def agrees(self) -> None:
        assert self.heap.check() == []
        assert len(self.heap) == len(self.model)
        assert self.heap.sorted() == self._order()
        assert list(self.heap) == [item for _, item in sorted(self.model, key=lambda pair: pair[0])]


TestHeapMachine = HeapMachine.TestCase
TestHeapMachine.settings = settings(stateful_step_count=60, deadline=None)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=300))
def test_many_replacements_keep_the_order(pushes: list[tuple[int, int]]) -> None:
    heap = a_heap()
    first_seen: dict[str, int] = {}
    latest: dict[str, int] = {}
    for number, (name, rank) in enumerate(pushes):
        heap.push(Item(str(name), rank))
        first_seen.setdefault(str(name), number)
        latest[str(name)] = rank
    assert drained(heap) == sorted(latest, key=lambda name: (latest[name], first_seen[name]))
