"""What other programs import does not change unnoticed: the names of `mooring` and `mooring.plugin`, with their signatures.

tests/public_names.txt has them. If a test fails because a name or a signature changed on purpose:

1. `PYTHONPATH=src python tests/test_public_names.py` writes the list anew; look at its difference.
2. If something in `mooring.plugin` went away, or changed so that plugins have to follow, raise `mooring.plugin.API_VERSION`.
3. `make reference` writes docs/reference/python.md anew; CHANGELOG.md says what authors have to do.
"""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any

import mooring
from mooring import plugin

LIST = Path(__file__).parent / "public_names.txt"
WHAT_TO_DO = "public names changed; the docstring of tests/test_public_names.py says what to do"


def public_names() -> Iterator[str]:
    """A line for each name, and one for each method and field that a class defines in public, bases of Mooring included."""
    for module in (mooring, plugin):
        for name in sorted(module.__all__):
            if name != "__version__":
                yield from _lines(f"{module.__name__}.{name}", getattr(module, name))


def _lines(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, type):
        signature = _signature(value) if inspect.isfunction(value) else ""
        shown = f" {value!r}" if isinstance(value, str | int | Enum) else ""
        yield f"{name}{signature} {_kind(value)}{shown}"
        return
    yield f"{name} class({', '.join(base.__name__ for base in value.__bases__)})"
    if issubclass(value, Enum):
        yield from (f"{name}.{member}" for member in value.__members__)
        return
    members = {
        member: found
        for base in reversed(value.__mro__)
        if base.__module__.startswith("mooring.")
        for member, found in {**dict.fromkeys(inspect.get_annotations(base)), **vars(base)}.items()
        if not member.startswith("_")
    }
    yield f"{name}.__init__{_signature(value)}"
    for member, found in sorted(members.items()):
        called = getattr(found, "__func__", found)
        yield f"{name}.{member}{_signature(called) if inspect.isfunction(called) else ''}"


def _kind(value: Any) -> str:
    if isinstance(value, UnionType):
        return "UnionType"  # Python 3.14 calls it Union
    return "function" if inspect.isfunction(value) else type(value).__name__


def _signature(value: Any) -> str:
    """Names of parameters and which may be left out; annotations are mypy's business."""
    try:
        found = inspect.signature(value)
    except ValueError:  # a class without a constructor of its own, such as an exception
        return ""
    bare = [
        each.replace(annotation=inspect.Parameter.empty, default=each.default if each.default is each.empty else ...)
        for each in found.parameters.values()
    ]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty)).replace("Ellipsis", "...")


def test_public_names_are_those_of_the_list() -> None:
    found, listed = [*public_names()], LIST.read_text().splitlines()
    gone, new = [line for line in listed if line not in found], [line for line in found if line not in listed]
    assert (gone, new) == ([], []), WHAT_TO_DO
    assert found == listed, WHAT_TO_DO


def test_the_door_for_plugins_has_nothing_else() -> None:
    assert len(plugin.__all__) == len(set(plugin.__all__))
    assert {name for name in vars(plugin) if not name.startswith("__")} == set(plugin.__all__)


def test_examples_of_plugins_use_only_the_door() -> None:
    examples = Path(__file__).parent.parent / "examples"
    files = [*(examples / "team_queues").glob("*.py"), *(examples / "gang").glob("*.py"), *examples.glob("[gp]*.py")]
    assert len(files) >= 9
    for path in files:
        lines = [line for line in path.read_text().splitlines() if line.startswith(("from mooring", "import mooring"))]
        assert [line for line in lines if not line.startswith("from mooring.plugin import ")] == [], path


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in public_names()))
