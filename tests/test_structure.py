"""The figures of a source tree: what counts as an import, a cycle, a duplicate and a comment."""

import gc
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import structure
from structure import Module, cycles, duplicates, figures_of, import_graph, read_tree

RULE = """
def settle(pod, node):
    total = pod.cpu + node.used
    if total > node.cpu:
        return f"{pod.name} does not fit"
    node.used = total
    node.pods.append(pod.name)
    return None
"""
BOX = '''"""A module."""

import port.b


class Box:
    """A box.

    It is empty.
    """

    size = 1  # litres
'''


def a_tree(folder: Path, **files: str) -> list[Module]:
    """A package `port` with these files: `model_pod` is port/model/pod.py, `model_init` port/model/__init__.py."""
    for name, text in files.items():
        path = folder / "port" / (name.replace("_", "/").replace("init", "__init__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_tree(folder / "port")


IMPORTS = {
    "a module": ("import port.b.c", {"port.b.c"}),
    "from a module": ("from port.b.c import Thing", {"port.b.c"}),
    "a module from its package": ("from port.b import c", {"port.b.c"}),
    "a name of a package": ("from port.b import NAME", {"port.b"}),
    "a package that is not there": ("from port import z", set()),
    "relative": ("from .b import c", {"port.b.c"}),
    "in a function": ("def f():\n    from port.b.c import Thing\n    return Thing", {"port.b.c"}),
    "under TYPE_CHECKING": ("if TYPE_CHECKING:\n    from port.b.c import Thing", {"port.b.c"}),
    "itself": ("import port.a", set()),
    "something else": ("import os\nfrom portly.b import c", set()),
}


@pytest.mark.parametrize(("text", "expected"), IMPORTS.values(), ids=IMPORTS.keys())
def test_imports(text: str, expected: set[str], tmp_path: Path) -> None:
    modules = a_tree(tmp_path, a=text, b_init="NAME = 1", b_c="class Thing: ...")
    assert import_graph(modules)["port.a"] == expected


def test_a_relative_import_in_a_package_starts_at_the_package(tmp_path: Path) -> None:
    modules = a_tree(tmp_path, b_init="from .c import Thing", b_c="from . import d", b_d="from ..a import x", a="")
    graph = import_graph(modules)
    assert graph == {"port.a": set(), "port.b": {"port.b.c"}, "port.b.c": {"port.b.d"}, "port.b.d": {"port.a"}}


def test_cycles_are_the_sets_of_modules_that_reach_each_other() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_a_rule_written_twice_is_a_duplicate_whatever_its_texts_say(tmp_path: Path) -> None:
    modules = a_tree(tmp_path, a=RULE, b='"""Another home."""\nimport os\n' + RULE.replace("does not fit", "is large"))
    assert duplicates(modules) == {"port.a": set(range(2, 9)), "port.b": set(range(4, 11))}


def test_no_duplicate(tmp_path: Path) -> None:
    renamed = RULE.replace("pod", "claim").replace("node", "volume")
    assert duplicates(a_tree(tmp_path, a=RULE, b=renamed)) == {}, "names have to be the same"


def test_a_long_table_does_not_repeat_itself(tmp_path: Path) -> None:
    assert duplicates(a_tree(tmp_path, a="ROWS = [" + '("x", 1), ' * 8 + "]")) == {}


def test_figures(tmp_path: Path) -> None:
    modules = a_tree(tmp_path, a=BOX, b="class Box:\n    def open(self):\n        pass\n\n    def shut(self): ...\n")
    found = figures_of(modules)
    assert (found.files, found.lines, found.file_lines_median, found.file_lines_maximum) == (2, 17, 8.5, 12)
    assert (found.functions, found.function_lines_median, found.function_lines_maximum) == (2, 1.5, 2)
    assert (found.single_importer_modules, found.cycles, found.modules_in_cycles) == (1, 0, 0)
    assert (found.duplicated_lines, found.shared_class_names) == (0, 1)
    assert found.comment_percent == round(100 * 5 / 11, 1)


def test_it_prints_a_column_for_each_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_tree(tmp_path / "before", a="from port.b import c", b_c="import port.a")
    a_tree(tmp_path / "after", a="")
    before, after = tmp_path / "before" / "port", tmp_path / "after" / "port"
    structure.main([str(before), str(after), "--names"])
    out = capsys.readouterr().out
    assert f"| | {before} | {after} |\n|---|---:|---:|\n| files | 2 | 1 |" in out
    assert "| modules in import cycles | 2 | 0 |" in out
    assert "cycle of 2: port.a, port.b.c\ncycle of rooms: port.a, port.b.c\n" in out
    structure.main([str(after), "--json"])
    assert json.loads(capsys.readouterr().out)[str(after)]["files"] == 1


def test_a_folder_without_python_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        structure.main([str(tmp_path)])
    assert f"{tmp_path}: no Python files" in capsys.readouterr().err


def test_a_cycle_of_rooms_needs_no_cycle_of_modules(tmp_path: Path) -> None:
    modules = a_tree(
        tmp_path,
        p_low_a="",
        p_low_b="import port.p.high.c",
        p_high_c="import port.p.low.a",
        p_top="import port.p.low.b",
    )
    graph = import_graph(modules)
    assert cycles(graph) == []
    assert structure.room_cycles(graph) == [["port.p.high", "port.p.low"]]


PRIVATE = {
    "of another class": ("def f(box):\n    return box._size", ["_size"]),
    "of its own": ("class Box:\n    def f(self):\n        return self._size", []),
    "of a class of the same module": ("class Box:\n    _size = 1\n\ndef f(box):\n    return box._size", []),
    "of a brother": ("class Box:\n    def f(self, other):\n        self._size = other._size", []),
    "a special name": ("def f(box):\n    return box.__class__", []),
    "documented by the standard library": ("import os\nos._exit(0)", []),
    "written": ("def f(box):\n    box._size = 2", ["_size"]),
}


@pytest.mark.parametrize(("text", "expected"), PRIVATE.values(), ids=PRIVATE.keys())
def test_foreign_private_accesses(text: str, expected: list[str], tmp_path: Path) -> None:
    (module,) = a_tree(tmp_path, a=text)
    assert [name for _, name in structure.foreign_private_accesses(module)] == expected


def test_names_of_modules_and_the_longest_list_of_parameters(tmp_path: Path) -> None:
    text = "class Box:\n    def f(self, a, /, b, *rest, c=1, **others): ...\n"
    found = figures_of(a_tree(tmp_path, a_pod=text, b_pod="", b_node="", a_init="", b_init=""))
    assert (found.shared_module_names, found.longest_parameter_list) == (1, 5)


def test_figures_go_into_the_last_column_of_the_page(tmp_path: Path) -> None:
    figures = figures_of(a_tree(tmp_path, a=BOX))
    page = "".join(f"| {words} | 7 | old |\n" for words in structure.ROWS.values())
    assert "| files | 7 | 1 |\n| lines | 7 | 12 |\n" in structure.documented(page, figures)
    with pytest.raises(SystemExit, match=r"the table of figures has 0 rows for 'files'"):
        structure.documented("", figures)


@pytest.mark.slow
def test_the_table_of_the_documentation_is_true() -> None:
    page = structure.PAGE.read_text()
    gc.disable()  # a million nodes and tokens, none of which is garbage before the end
    try:
        figures = figures_of(read_tree(structure.ROOT / "src" / "mooring"))
    finally:
        gc.enable()
    assert structure.documented(page, figures) == page, (
        "run `make figures`, which writes the table of docs/architecture.md"
    )


def test_every_figure_has_words() -> None:
    assert list(structure.ROWS) == list(structure.Figures.__annotations__)


def test_docstrings_name_their_subject() -> None:
    """A docstring that begins with "What" or "The same" sends its reader to the neighbours first (CONTRIBUTING.md)."""
    begins = re.compile(r'^\s*"""(What |The same |\.\.\.")', re.MULTILINE)
    modules = (structure.ROOT / "src" / "mooring").rglob("*.py")
    assert [str(path) for path in modules if begins.search(path.read_text())] == []
