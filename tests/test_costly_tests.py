"""`make check` leaves out costly tests: those of a list that tools/costly_tests.py measures."""

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import costly_tests

ROOT = Path(__file__).parent.parent


def test_a_test_is_costly_by_one_case_or_by_all_of_them() -> None:
    taken_s = {
        "tests/a.py::test_each": [0.05, 0.02],
        "tests/a.py::test_all": [0.01] * 12,
        "tests/a.py::test_cheap": [0.01] * 9,
    }
    assert costly_tests.costly(taken_s) == ["tests/a.py::test_all", "tests/a.py::test_each"]


def test_the_cheapest_test_of_a_file_stays_where_all_are_costly() -> None:
    assert costly_tests.costly({"tests/a.py::test_b": [2.0], "tests/a.py::test_a": [1.0]}) == ["tests/a.py::test_b"]


def test_the_meter_counts_cpu_time() -> None:
    began_s = costly_tests.cpu_s()
    while costly_tests.cpu_s() == began_s:
        sum(range(10_000))
    assert costly_tests.cpu_s() > began_s


def test_every_test_of_the_list_exists() -> None:
    """A test that was renamed would run in `make check` again, and nobody would notice: run `make costly`."""
    names = costly_tests.LIST.read_text().splitlines()
    assert names == sorted({*names})
    files = {name.partition("::")[0] for name in names}
    known = {f"{file}::{found}" for file in files for found in _tests_of(ROOT / file)}
    assert [name for name in names if name not in known] == []
    assert len({*names} & known) < len(known)


def _tests_of(path: Path) -> set[str]:
    """Functions, methods and assigned test cases of a module, as pytest names them."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body if path.is_file() else ():
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.Assign):
            found |= {f"{target.id}::runTest" for target in node.targets if isinstance(target, ast.Name)}
    return found
