"""Imports go down only: each package knows those of lower layers, and none beside or above it. So do rooms in a package.

Modules, too, have an order: none imports itself by way of others.

An import counts wherever it stands: in a function, under TYPE_CHECKING, in any form.
"""

import ast
import subprocess
import sys
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mooring"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("kit",),
    ("model",),
    ("api", "cel"),
    ("rules",),
    ("cluster", "apiserver", "apiclient"),
    ("framework", "controllers"),
    ("queue",),
    ("scheduler", "plugins"),
    ("state",),
    ("drivers",),
    ("serve",),
    ("inputs",),
    ("sim",),
    ("answers", "gym"),
    ("embedded",),
    ("dashboard",),
    ("app",),
    ("cli",),
)
"""From the bottom up; names that stand together do not know each other."""

ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "answers": (
        ("form",),
        ("trial",),
        ("explain",),
        ("simulate",),
        ("what_if", "capacity"),
        ("plan", "pending"),
        ("experiments",),
        ("study",),
        ("recorded",),
    ),
    "api": (("validation",), ("kinds",), ("patches",), ("schema",)),
    "apiclient": (("kubeconfig", "reflectors"),),
    "apiserver": (("admission",), ("server",)),
    "cel": (("language",), ("functions",)),
    "cli": (("commands",),),
    "cluster": (("columns",), ("tallies",), ("nodes",), ("pods",), ("claims",)),
    "controllers": (("lifecycle", "nodes"), ("workloads",), ("storage",)),
    "dashboard": (("views",), ("questions",), ("serving",)),
    "framework": (("config",), ("contract",), ("profile",), ("kept",), ("attempts",)),
    "inputs": (("dumps", "offers"),),
    "plugins": (("nodes", "resources", "affinity", "volumes", "devices", "preemption"),),
    "scheduler": (("groups",),),
    "serve": (("pages", "lease"),),
    "state": (("check", "recording"), ("replay",)),
}
"""The rooms of packages, from the bottom up, by the same rule. Modules outside rooms serve them and put them together."""

LAYER = {package: height for height, packages in enumerate(LAYERS) for package in packages}
DOOR = "plugin"
"""`mooring.plugin` stands beside all packages: it re-exports from any of them. Only plugins may import it."""

ROOM = {f"{p}.{room}": height for p, rows in ROOMS.items() for height, rooms in enumerate(rows) for room in rooms}


def breaches(module: str, text: str) -> list[str]:
    """The imports of a module (`cluster.table`) that go up or sideways."""
    package, room = module.split(".")[0], _room(module)
    found = []
    for line, name in _imports(module, text):
        target, other = name.split(".")[0], _room(name)
        if target == package:
            if room and other and room != other and ROOM[other] >= ROOM[room]:
                found.append(f"{module}:{line} imports mooring.{other}: {room} may not know {other}")
        elif target == DOOR:
            if package != "plugins":
                found.append(f"{module}:{line} imports mooring.plugin, which is for plugins only")
        elif package == DOOR:
            continue
        elif target not in LAYER:
            found.append(f"{module}:{line} imports mooring.{target}, which is in no layer")
        elif LAYER[target] >= LAYER[package]:
            found.append(f"{module}:{line} imports mooring.{target}: {package} may not know {target}")
    return found


def _room(name: str) -> str | None:
    room = ".".join(name.split(".")[:2])
    return room if room in ROOM else None


@cache
def _imports(module: str, text: str) -> list[tuple[int, str]]:
    """(line, module or package of Mooring) of every import; the empty one stands for `mooring` itself."""
    found = []
    for node in statements(text):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(module, node)
            names = [f"{origin}.{alias.name}" for alias in node.names] if origin.startswith("mooring") else [origin]
        else:
            continue
        for name in names:
            root, _, below = name.partition(".")
            if root == "mooring":
                found.append((node.lineno, below))
    return found


@cache
def statements(text: str) -> list[ast.stmt]:
    """All statements of a module, also inside others. Expressions are passed over: they are most of the tree."""
    ahead: list[ast.AST] = [ast.parse(text)]
    found = []
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.stmt):
            found.append(node)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            ahead += inner if isinstance(inner, list) else ()
    return found


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The modules that import themselves by way of others, grouped by who is in reach of whom."""
    reach = {module: _reach(graph, module) for module in graph}
    found = {frozenset(other for other in reach[m] if m in reach[other]) for m in graph if m in reach[m]}
    return sorted(sorted(group) for group in found)


def _reach(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        new = set(graph[ahead.pop()]) - reached
        reached |= new
        ahead += new
    return reached


def _import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> the modules that it imports; a package stands for its `__init__`."""
    graph = {}
    for module, text in texts.items():
        imported = {_imported_module(name, texts) for _, name in _imports(module, text)}
        graph[module] = {other for other in imported if other is not None}
    return graph


def _imported_module(name: str, known: Container[str]) -> str | None:
    """The module that defines an imported name: `cluster.nodes.table.NodeTable` is in cluster.nodes.table."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        stem = ".".join(parts[:end])
        for module in (stem, f"{stem}.__init__"):
            if module in known:
                return module
    return None


def _absolute(module: str, node: ast.ImportFrom) -> str:
    """`from ..model import x` in cluster.table means mooring.model."""
    if not node.level:
        return node.module or ""
    above = ["mooring", *module.split(".")][: -node.level]
    return ".".join([*above, *(node.module or "").split(".")]).rstrip(".")


def _modules() -> dict[str, Path]:
    """Every module of the packages, and the door for plugins, by its name below `mooring`."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "__init__.py"
    }


def test_imports_go_down_only() -> None:
    found = [breach for module, path in _modules().items() for breach in breaches(module, path.read_text())]
    assert found == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = _import_graph({module: path.read_text() for module, path in _modules().items()})
    assert cycles(graph) == []


def test_every_package_has_a_layer() -> None:
    packages = {module.split(".")[0] for module in _modules()}
    assert packages <= {*LAYER, DOOR}
    assert {"kit", "model", "cluster", "framework", "scheduler", "plugins", "app", "sim", "cli"} <= packages
    rooms = {f"{path.parent.parent.name}.{path.parent.name}" for path in _modules().values()}
    assert set(ROOM) == {room for room in rooms if room.split(".")[0] in LAYER}


def test_the_root_loads_nothing_when_it_is_imported() -> None:
    """It offers what notebooks need, but only when asked: or else every module would depend on all of that."""
    loaded = "import mooring, sys; print([name for name in sys.modules if name.startswith('mooring.')])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("loading", ["from mooring.plugins import in_tree; in_tree()", "import mooring.plugin"])
def test_plugins_load_without_cel_and_without_a_client(loading: str) -> None:
    """CEL takes 30 ms, and most clusters have no selectors of devices. A plugin that simulates needs no API server."""
    loaded = (
        f"import sys; {loading}; "
        "print([name for name in sys.modules if name.startswith(('mooring.cel', 'mooring.apiclient', 'aiohttp'))])"
    )
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---- the checker itself


BREACHES: dict[str, tuple[str, str, list[str]]] = {
    "down": ("plugins.x", "from mooring.framework.contract.points import Plugin", []),
    "down, several layers": ("cli.main", "import mooring.kit.choice", []),
    "within a package": ("cluster.table", "from mooring.cluster.columns.labels import grown", []),
    "something else": ("kit.clock", "import time\nfrom numpy import array\nimport mooringx.cluster", []),
    "up": (
        "cluster.table",
        "import numpy\nfrom mooring.framework.contract.context import Cycle",
        ["cluster.table:2 imports mooring.framework: cluster may not know framework"],
    ),
    "up, by import": (
        "model.pod",
        "import os, mooring.cluster.nodes.table as t",
        ["model.pod:1 imports mooring.cluster: model may not know cluster"],
    ),
    "sideways": (
        "plugins.x",
        "from mooring.scheduler.decide import decide",
        ["plugins.x:1 imports mooring.scheduler: plugins may not know scheduler"],
    ),
    "sideways, the other way": (
        "scheduler.x",
        "from mooring.plugins import in_tree",
        ["scheduler.x:1 imports mooring.plugins: scheduler may not know plugins"],
    ),
    "another room": (
        "plugins.nodes.x",
        "from mooring.framework.contract.events import y\nfrom mooring.plugins.volumes import z",
        ["plugins.nodes.x:2 imports mooring.plugins.volumes: plugins.nodes may not know plugins.volumes"],
    ),
    "a room below": ("controllers.workloads.x", "from mooring.controllers.nodes.kubelets import y", []),
    "in a function": (
        "model.pod",
        "def f():\n    from mooring.sim.scenario import Placer\n    return Placer",
        ["model.pod:2 imports mooring.sim: model may not know sim"],
    ),
    "under TYPE_CHECKING": (
        "queue.queue",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mooring.scheduler.loop import Loop",
        ["queue.queue:3 imports mooring.scheduler: queue may not know scheduler"],
    ),
    "a package from the root": (
        "kit.x",
        "from mooring import cluster, kit",
        ["kit.x:1 imports mooring.cluster: kit may not know cluster"],
    ),
    "the root itself": ("kit.x", "import mooring", ["kit.x:1 imports mooring., which is in no layer"]),
    "a package without a layer": (
        "cli.x",
        "from mooring.utils import y",
        ["cli.x:1 imports mooring.utils, which is in no layer"],
    ),
    "the door, from a plugin": ("plugins.nodes.x", "from mooring.plugin import PlainPlugin", []),
    "the door, from elsewhere": (
        "queue.x",
        "from mooring.plugin import Pod",
        ["queue.x:1 imports mooring.plugin, which is for plugins only"],
    ),
    "the door itself": ("plugin", "from mooring.plugins.x import y\nfrom mooring.kit.choice import choose", []),
    "relative, within": ("cluster.table", "from .labels import grown\nfrom . import log", []),
    "relative, up": (
        "cluster.table",
        "from ..framework import cycle",
        ["cluster.table:1 imports mooring.framework: cluster may not know framework"],
    ),
    "relative, from the root": (
        "cluster.table",
        "from .. import app",
        ["cluster.table:1 imports mooring.app: cluster may not know app"],
    ),
}


@pytest.mark.parametrize(("module", "text", "expected"), BREACHES.values(), ids=BREACHES.keys())
def test_the_checker(module: str, text: str, expected: list[str]) -> None:
    assert breaches(module, text) == expected


CYCLES: dict[str, tuple[dict[str, str], list[list[str]]]] = {
    "a chain": ({"a.x": "from mooring.a.y import f", "a.y": "import mooring.b.z", "b.z": ""}, []),
    "of two": ({"a.x": "from mooring.a.y import f", "a.y": "from mooring.a import x"}, [["a.x", "a.y"]]),
    "of three, and one beside it": (
        {
            "a.x": "import mooring.a.y",
            "a.y": "import mooring.a.z",
            "a.z": "import mooring.a.x",
            "b.w": "import mooring.a.x",
        },
        [["a.x", "a.y", "a.z"]],
    ),
    "in a function": ({"a.x": "def f():\n    import mooring.a.y", "a.y": "import mooring.a.x"}, [["a.x", "a.y"]]),
    "under TYPE_CHECKING": (
        {"a.x": "if TYPE_CHECKING:\n    from mooring.a.y import Y", "a.y": "from mooring.a.x import X"},
        [["a.x", "a.y"]],
    ),
    "by way of a package": (
        {"a.__init__": "from mooring.a.x import f", "a.x": "from mooring.a import g"},
        [["a.__init__", "a.x"]],
    ),
}


@pytest.mark.parametrize(("texts", "expected"), CYCLES.values(), ids=CYCLES.keys())
def test_the_search_for_cycles(texts: dict[str, str], expected: list[list[str]]) -> None:
    assert cycles(_import_graph(texts)) == expected


def test_no_two_classes_share_a_name() -> None:
    """A reader who meets a name knows which class it is."""
    homes: dict[str, list[str]] = {}
    for module, path in _modules().items():
        for node in statements(path.read_text()):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
