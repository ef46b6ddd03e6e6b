"""Workers get files with slow tests from one end, files with costly tests from the other, and the rest last."""

from dataclasses import dataclass
from pathlib import Path

from run_order import parts_of


@dataclass(frozen=True)
class ATest:
    """As pytest collects it."""

    path: Path
    nodeid: str
    is_slow: bool

    def get_closest_marker(self, name: str) -> bool | None:
        return True if name == "slow" and self.is_slow else None


SLOW = {"b2", "e1", "e3"}
COSTLY = {"a1", "a2", "c3", "e2"}
COLLECTED = [
    ATest(Path(f"test_{file}.py"), f"{file}{number}[{case}]", f"{file}{number}" in SLOW)
    for file in "abcde"
    for number in (1, 2, 3)
    for case in ("first", "second")
]


def test_files_stay_together_from_the_slowest_to_the_costliest() -> None:
    parts = parts_of(COLLECTED, COSTLY)
    assert [{COLLECTED[place].path.stem[-1] for place in part} for part in parts] == [{"e"}, {"b"}, {"d"}, {"c"}, {"a"}]
    assert all(part == sorted(part) and len(part) == 6 for part in parts)
