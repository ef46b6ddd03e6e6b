"""The mutation tester: which faults it makes, that each is one fault, and that a fault reaches those who imported it."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from mutant_tests import MutantFinder, Reach, _imported_by, patch_functions
from mutations import mutations_of

SOURCE = '''"""A module."""
LIMIT = 3

def clip(value: int, low: int = 0) -> int:
    """Not below zero."""
    if value < low and not value:
        raise ValueError("low")
    for turn in range(value):
        if turn > 2:
            break
    total = value + 1
    return total

class Box:
    def get(self, key: str) -> str | None:
        return self.items.get(key)
'''
MUTANTS = [
    ": 3 -> 4",
    "clip: 0 -> 1",
    "clip: value < low and (not value) -> value < low or not value",
    "clip: value < low and (not value) -> True",
    "clip: value < low and (not value) -> False",
    "clip: value < low -> value <= low",
    "clip: not value -> value",
    "clip: raise ValueError('low') -> pass",
    "clip: 'low' -> 'XXlow'",
    "clip: turn > 2 -> turn >= 2",
    "clip: turn > 2 -> True",
    "clip: turn > 2 -> False",
    "clip: 2 -> 3",
    "clip: break -> continue",
    "clip: total = value + 1 -> pass",
    "clip: value + 1 -> value - 1",
    "clip: 1 -> 2",
    "clip: return total -> return None",
    "Box.get: return self.items.get(key) -> return None",
]


def test_the_faults_of_a_module() -> None:
    assert sorted(mutation.name for mutation in mutations_of(ast.parse(SOURCE))) == sorted(MUTANTS)


def test_checks_that_a_correct_program_never_notices_are_no_faults() -> None:
    text = "class Pair(Struct, frozen=True, tag=True):\n    pass\n\ndef f(a, b):\n    return zip(a, b, strict=True)\n"
    names = [mutation.name for mutation in mutations_of(ast.parse(text))]
    assert names == ["Pair: True -> False", "f: return zip(a, b, strict=True) -> return None"]


def test_each_mutant_is_a_program_that_differs_from_all_others() -> None:
    tree = ast.parse(SOURCE)
    before = ast.unparse(tree)
    texts = [ast.unparse(mutation.apply(tree)) for mutation in mutations_of(tree)]
    for text in texts:
        compile(text, "mutant", "exec")
    assert len({before, *texts}) == len(MUTANTS) + 1
    assert ast.unparse(tree) == before, "the original stays as it is"


def test_a_mutation_knows_the_lines_that_a_test_must_run_to_see_it() -> None:
    lines = {mutation.name: list(mutation.lines) for mutation in mutations_of(ast.parse(SOURCE))}
    assert lines["clip: turn > 2 -> True"] == [9]
    assert lines[": 3 -> 4"] == lines["clip: 0 -> 1"] == [], "they take effect at the import"


def test_equal_faults_of_a_function_have_names_of_their_own() -> None:
    names = [mutation.name for mutation in mutations_of(ast.parse("def f(a, b):\n    return (a < b) + (a < b)\n"))]
    assert {"f: a < b -> a <= b", "f: a < b -> a <= b (2)"} <= set(names)


def test_tests_are_found_by_the_lines_they_run_the_quickest_first() -> None:
    reach = Reach(
        {"slow": {"m": [1, 2]}, "quick": {"m": [2]}, "other": {"n": [2]}}, {"slow": 9, "quick": 1, "other": 2}
    )
    assert reach.tests_for("m", range(2, 3)) == ["quick", "slow"]
    assert reach.tests_for("m", range(1, 2)) == ["slow"]
    assert reach.tests_for("m", range(7, 9)) == []
    assert reach.tests_for("m", ()) == ["quick", "slow"], "whatever takes effect at the import concerns all"


def test_what_takes_effect_with_an_import_meets_the_tests_that_import_it() -> None:
    lines: dict[str, dict[str, list[int]]] = {"runs": {"/m.py": [3]}, "imports": {"/m.py": []}, "neither": {}}
    reach = Reach(lines, {"runs": 2.0, "imports": 1.0, "neither": 0.0}, [])
    assert reach.tests_for("/m.py", ()) == ["imports", "runs"]
    assert reach.tests_for("/m.py", [3, 4]) == ["runs"]
    files = _imported_by(sys.modules[__name__])
    assert {Path(file).name for file in files} >= {"mutant_tests.py", "mutations.py", "ast.py"}
    assert _imported_by(None) == frozenset()


def test_functions_that_others_have_imported_get_the_code_of_the_mutant(tmp_path: Path) -> None:
    path = str(tmp_path / "clipping.py")
    module = ModuleType("clipping")
    tree = ast.parse(SOURCE)
    exec(compile(tree, path, "exec"), module.__dict__)
    imported = module.clip
    (mutation,) = (m for m in mutations_of(tree) if m.name == "clip: value + 1 -> value - 1")
    assert imported(1) == 2
    assert patch_functions(path, compile(mutation.apply(tree), path, "exec"))
    assert imported(1) == 0
    assert not patch_functions(str(tmp_path / "unknown.py"), compile("", path, "exec"))


def test_a_module_is_imported_as_its_mutant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(tmp_path / "mutant_of_limits.py")
    finder = MutantFinder("mutant_of_limits", path, compile("LIMIT = 4", path, "exec"))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    import mutant_of_limits  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "mutant_of_limits")
    assert mutant_of_limits.LIMIT == 4
