"""Prints the figures of a source tree: sizes, importers, cycles, duplicates, shared class names, comments.

    python tools/structure.py [TREE ...] [--json] [--names] [--document]

TREE is the folder of a package (src/mooring by default); its name is the name of the package. Several trees stand side
by side as columns of the table. `--names` lists the places behind the counts. `--document` writes the figures into the last
column of the table in docs/architecture.md; tests/test_structure.py says when they are stale.

How it counts:

- An import counts wherever it stands: in a function and under TYPE_CHECKING too. `from mooring.queue import backoff`
  imports the module backoff, not the package. A cycle is a set of modules that all import each other, directly or not.
- A function's lines run from its `def` to its last line, decorators left out.
- A line is duplicated if it lies in a run of 40 tokens that stands a second time, in the same file or in another one.
  Comments, docstrings and imports do not count as tokens; all strings are alike, and so are all numbers. Names have to
  be the same.
- A line is a comment if a comment or a docstring stands on it; blank lines are no part of the share.
- A room is a folder inside of a package. A cycle between rooms counts modules outside of rooms one by one.
- A private access is foreign if it is to an attribute `_x` of another object than `self` or `cls`, and its module defines no
  attribute or method of that name.
- A parameter list does not count `self` and `cls`.
"""

import argparse
import ast
import io
import json
import re
import statistics
import tokenize
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
RUN_TOKENS = 40
"""How long a run has to be to count as a duplicate: about five lines. Shorter ones are mostly signatures."""
ROWS = {
    "files": "files",
    "lines": "lines",
    "file_lines_median": "lines of a file, median",
    "file_lines_maximum": "lines of a file, maximum",
    "functions": "functions",
    "function_lines_median": "lines of a function, median",
    "function_lines_maximum": "lines of a function, maximum",
    "single_importer_modules": "modules with exactly one importer",
    "cycles": "import cycles",
    "modules_in_cycles": "modules in import cycles",
    "room_cycles": "import cycles between rooms",
    "duplicated_lines": "duplicated lines",
    "shared_class_names": "class names used twice or more",
    "shared_module_names": "module names used twice or more",
    "foreign_private_accesses": "foreign private accesses",
    "longest_parameter_list": "longest parameter list",
    "comment_percent": "comments and docstrings, % of lines",
}
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
F_STRING_STARTS, F_STRING_ENDS = (
    {getattr(tokenize, f"{letter}STRING_{part}", None) for letter in "FT"} - {None} for part in ("START", "END")
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Figures:
    """The counts of one tree; ROWS has the words for each."""

    files: int
    lines: int
    file_lines_median: float
    file_lines_maximum: int
    functions: int
    function_lines_median: float
    function_lines_maximum: int
    single_importer_modules: int
    cycles: int
    modules_in_cycles: int
    room_cycles: int
    duplicated_lines: int
    shared_class_names: int
    shared_module_names: int
    foreign_private_accesses: int
    longest_parameter_list: int
    comment_percent: float


@dataclass(frozen=True)
class Module:
    """One file, read once."""

    name: str
    is_package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, walked once for all counts."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Lines of docstrings, and of strings that stand alone below a name, which document the name."""
        nodes = [node for node in self.nodes if isinstance(node, DOCUMENTED)]
        strings = [statement for node in nodes for statement in node.body if _is_string(statement)]
        return {line for string in strings for line in range(string.lineno, (string.end_lineno or string.lineno) + 1)}

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))


def _is_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def read_tree(folder: Path) -> list[Module]:
    """All modules below a folder, which is the package that they belong to."""
    return [
        Module(_module_name(folder, path), path.name == "__init__.py", path.read_text())
        for path in sorted(folder.rglob("*.py"))
    ]


def _module_name(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(module: Module, known: set[str]) -> set[str]:
    """The other modules of the tree that a module imports."""
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            below = {f"{origin}.{alias.name}" for alias in node.names}
            found |= (below & known) or {origin}
    return (found & known) - {module.name}


def _origin(module: Module, node: ast.ImportFrom) -> str:
    """`from ..model import x` in mooring.cluster.table means mooring.model."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    above = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*above, *([node.module] if node.module else [])])


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (Tarjan), the largest first."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            start = path.index(name)
            if len(path) - start > 1:
                found.append(sorted(path[start:]))
            del path[start:]

    for name in sorted(graph):
        if name not in numbers:
            visit(name)
    return sorted(found, key=lambda modules: (-len(modules), modules))


def duplicates(modules: Sequence[Module]) -> dict[str, set[int]]:
    """The lines of each module that lie in a run of tokens that stands elsewhere as well."""
    places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    tokens = [list(_plain_tokens(module)) for module in modules]
    numbers: dict[str, int] = {}
    for index, found in enumerate(tokens):
        # A run is a slice of bytes, four for each token: it is cut and hashed in one go.
        texts = array("I", [numbers.setdefault(text, len(numbers)) for _, text in found]).tobytes()
        for start in range(len(found) - RUN_TOKENS + 1):
            places[texts[4 * start : 4 * (start + RUN_TOKENS)]].append((index, start))
    lines: dict[str, set[int]] = defaultdict(set)
    for stands in places.values():
        if _stands_twice(stands):
            for index, start in stands:
                lines[modules[index].name].update(line for line, _ in tokens[index][start : start + RUN_TOKENS])
    return dict(lines)


def _stands_twice(stands: list[tuple[int, int]]) -> bool:
    """In two files, or in one without overlapping itself: rows of a table overlap with the next ones."""
    (index, first), (other, last) = stands[0], stands[-1]
    return index != other or last - first >= RUN_TOKENS


def _plain_tokens(module: Module) -> Iterator[tuple[int, str]]:
    """(line, text) of what says something: no comments, docstrings or imports; literals by their kind."""
    left_out = module.docstring_lines | _import_lines(module)
    depth = 0
    for token in module.tokens:
        line = token.start[0]
        begins, ends = token.type in F_STRING_STARTS, token.type in F_STRING_ENDS
        depth += begins - ends
        if token.type in SKIPPED or line in left_out or ends or depth > begins:
            continue  # from Python 3.12 on, the parts of an f-string are tokens
        if token.type == tokenize.NUMBER:
            yield line, "0"
        elif token.type == tokenize.STRING or begins:
            yield line, "''"
        else:
            yield line, token.string


def _import_lines(module: Module) -> set[int]:
    nodes = [node for node in module.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def shared_class_names(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Class names that are used twice or more, with the modules that use them."""
    users: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                users[node.name].append(module.name)
    return {name: names for name, names in sorted(users.items()) if len(names) > 1}


def shared_module_names(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Names of modules that are used twice or more; packages do not count."""
    users: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if not module.is_package:
            users[module.name.rpartition(".")[2]].append(module.name)
    return {name: names for name, names in sorted(users.items()) if len(names) > 1}


def room_of(name: str) -> str:
    """`mooring.cluster.nodes.table` is in the room `mooring.cluster.nodes`; a module outside of rooms stands for itself."""
    parts = name.split(".")
    return ".".join(parts[:3]) if len(parts) > 3 else name


def room_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        rooms[room_of(name)] |= {room_of(other) for other in others} - {room_of(name)}
    return cycles(dict(rooms))


OF_LIBRARIES = {"_replace", "_asdict", "_make", "_fields", "_exit"}
"""Documented names of the standard library that begin with an underscore."""


def foreign_private_accesses(module: Module) -> list[tuple[int, str]]:
    """(line, attribute) of accesses to private attributes that belong to code elsewhere."""
    own = OF_LIBRARIES | set(_private_names(module))
    return [
        (node.lineno, node.attr)
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def _private_names(module: Module) -> Iterator[str]:
    """The private names that a module defines: functions, variables, fields of classes, attributes of `self`, slots."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_"):
            yield node.value


def _parameters(module: Module) -> Iterator[tuple[int, str]]:
    """(number of parameters, function) of every function."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            given += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
            yield sum(each.arg not in ("self", "cls") for each in given), f"{module.name}.{node.name}"


def comment_lines(module: Module) -> int:
    comments = {token.start[0] for token in module.tokens if token.type == tokenize.COMMENT}
    said = {line for line in module.docstring_lines if module.lines[line - 1].strip()}
    return len(comments | said)


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    known = {module.name for module in modules}
    return {module.name: imports_of(module, known) for module in modules}


def figures_of(modules: Sequence[Module]) -> Figures:
    sizes = [len(module.lines) for module in modules]
    functions = [size for module in modules for size in _function_sizes(module)]
    graph = import_graph(modules)
    importers = Counter(name for names in graph.values() for name in names)
    rings = cycles(graph)
    written = sum(bool(line.strip()) for module in modules for line in module.lines)
    return Figures(
        files=len(modules),
        lines=sum(sizes),
        file_lines_median=statistics.median(sizes),
        file_lines_maximum=max(sizes),
        functions=len(functions),
        function_lines_median=statistics.median(functions or [0]),
        function_lines_maximum=max(functions, default=0),
        single_importer_modules=sum(count == 1 for count in importers.values()),
        cycles=len(rings),
        modules_in_cycles=sum(map(len, rings)),
        room_cycles=len(room_cycles(graph)),
        duplicated_lines=sum(map(len, duplicates(modules).values())),
        shared_class_names=len(shared_class_names(modules)),
        shared_module_names=len(shared_module_names(modules)),
        foreign_private_accesses=sum(len(foreign_private_accesses(module)) for module in modules),
        longest_parameter_list=max((count for module in modules for count, _ in _parameters(module)), default=0),
        comment_percent=round(100 * sum(map(comment_lines, modules)) / max(written, 1), 1),
    )


def _function_sizes(module: Module) -> Iterator[int]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def markdown(columns: dict[str, Figures]) -> str:
    """The figures as a table, one column for each tree."""
    rows = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for key, words in ROWS.items():
        rows.append(f"| {words} | {' | '.join(_number(getattr(figures, key)) for figures in columns.values())} |")
    return "\n".join(rows)


def documented(page: str, figures: Figures) -> str:
    """The page with these figures in the last column of its table. Each row of the table begins with the words of ROWS."""
    for key, words in ROWS.items():
        row = re.compile(rf"^(\| {re.escape(words)} \|.*\|) [^|]+ \|$", re.MULTILINE)
        page, rows = row.subn(rf"\1 {_number(getattr(figures, key))} |", page)
        if rows != 1:
            raise SystemExit(f"{PAGE.name}: the table of figures has {rows} rows for {words!r}; it needs one")
    return page


def _number(value: float) -> str:
    return f"{value:,g}" if value < 1000 else f"{value:,.0f}"


def names_behind(modules: Sequence[Module]) -> str:
    """The places behind the counts, one a line."""
    lines = [f"cycle of {len(ring)}: {', '.join(ring)}" for ring in cycles(import_graph(modules))]
    lines += [f"{len(found)} duplicated lines: {name} {_spans(found)}" for name, found in duplicates(modules).items()]
    lines += [f"class {name}: {', '.join(users)}" for name, users in shared_class_names(modules).items()]
    lines += [f"cycle of rooms: {', '.join(ring)}" for ring in room_cycles(import_graph(modules))]
    lines += [f"module {name}: {', '.join(users)}" for name, users in shared_module_names(modules).items()]
    lines += [
        f"private: {each.name}:{line} {name}" for each in modules for line, name in foreign_private_accesses(each)
    ]
    longest = sorted((found for module in modules for found in _parameters(module)), reverse=True)[:10]
    lines += [f"{count} parameters: {name}" for count, name in longest]
    return "\n".join(lines)


def _spans(lines: set[int]) -> str:
    """{1, 2, 3, 7} -> 1-3, 7"""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Print the figures of source trees.")
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT / "src" / "mooring"], metavar="TREE")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--names", action="store_true", help="list the places behind the counts as well")
    parser.add_argument("--document", action="store_true", help="write the figures into docs/architecture.md")
    options = parser.parse_args(arguments)
    for tree in options.trees:
        if not any(tree.rglob("*.py")):
            parser.error(f"{tree}: no Python files")
    read = {str(tree): read_tree(tree) for tree in options.trees}
    figures = {tree: figures_of(modules) for tree, modules in read.items()}
    print(json.dumps({tree: asdict(found) for tree, found in figures.items()}) if options.json else markdown(figures))
    if options.document:
        PAGE.write_text(documented(PAGE.read_text(), [*figures.values()][-1]))
    if options.names:
        for modules in read.values():
            print(names_behind(modules))


if __name__ == "__main__":
    main()
