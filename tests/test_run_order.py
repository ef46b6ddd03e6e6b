"""Workers start with slow tests, each with a part of them, and end with quick ones."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from run_order import in_order


@dataclass(frozen=True)
class ATest:
    """As pytest collects it."""

    path: Path
    name: str
    is_slow: bool

    def get_closest_marker(self, name: str) -> bool:
        return name == "slow" and self.is_slow


COLLECTED = [
    ATest(Path(f"test_{file}.py"), f"{file}{n}", file in "cef" and n == 2) for file in "abcdef" for n in (1, 2, 3)
]
"""Six files of three tests. The second tests of `test_c`, `test_e` and `test_f` are slow."""


def names(items: list[ATest]) -> list[str]:
    return [item.name for item in items]


def test_each_worker_has_files_with_slow_tests_first_and_other_tests_to_the_end_of_its_part() -> None:
    ordered = names(in_order(COLLECTED, 2))
    assert ordered[:9] == ["c1", "c2", "c3", "f1", "f2", "f3", "a1", "a2", "a3"]
    assert ordered[9:] == ["e1", "e2", "e3", "b1", "b2", "b3", "d1", "d2", "d3"]


@pytest.mark.parametrize("workers", range(1, 20))
def test_no_test_is_lost_with_any_number_of_workers(workers: int) -> None:
    ordered = names(in_order(COLLECTED, workers))
    assert sorted(ordered) == sorted(names(COLLECTED))
    assert ordered[:3] == ["c1", "c2", "c3"]


def test_a_part_with_more_slow_tests_than_its_size_is_longer() -> None:
    slow = [test for test in COLLECTED if test.path.stem[-1] in "cef"]
    assert names(in_order(slow, 2)) == ["c1", "c2", "c3", "f1", "f2", "f3", "e1", "e2", "e3"]
