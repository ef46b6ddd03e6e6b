"""The small faults that `mutate.py` puts into a module: each is one change of one node of its syntax tree.

A mutation has a name that survives edits elsewhere in the file: the function it is in, and its code before and after.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_DELETED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise)
"""Statements that may be missing. (An AnnAssign declares; without it the type checker objects.)"""
_DECLARATIONS = {"TypeVar", "NewType", "Literal", "Protocol", "ParamSpec"}
_TYPES = {"__slots__", "__all__", "__match_args__"}
_CHECKS = {"strict", "frozen", "gc", "slots"}
"""Keywords that only guard against mistakes in the program, or save memory: a correct program never notices them."""


@dataclass(frozen=True)
class Mutation:
    """One fault. `lines` are those of the statement it is in; empty: it takes effect when the module is imported."""

    name: str
    line: int
    lines: range
    path: tuple[tuple[str, int | None], ...]
    """The way from the module to the node that is replaced."""
    replacement: ast.AST

    def apply(self, tree: ast.Module) -> ast.Module:
        """A copy of the module's tree with the fault in it."""
        mutant = copy.deepcopy(tree)
        parent: ast.AST = mutant
        for field, index in self.path[:-1]:
            value = getattr(parent, field)
            parent = value if index is None else value[index]
        field, index = self.path[-1]
        new = ast.copy_location(copy.deepcopy(self.replacement), self._at(parent, field, index))
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new
        return ast.fix_missing_locations(mutant)

    @staticmethod
    def _at(parent: ast.AST, field: str, index: int | None) -> ast.AST:
        value = getattr(parent, field)
        node: ast.AST = value if index is None else value[index]
        return node


def mutations_of(tree: ast.Module) -> list[Mutation]:
    """All faults for a module, in the order of its text."""
    seen: Counter[str] = Counter()
    found = []
    for place in _places(tree, (), "", None):
        for replacement in _replacements(place):
            name = f"{place.scope}: {_shown(place.node)} -> {_shown(replacement)}"
            seen[name] += 1
            if seen[name] > 1:
                name = f"{name} ({seen[name]})"
            lines = _lines(place.statement) if place.in_function else range(0)
            found.append(Mutation(name, getattr(place.node, "lineno", 0), lines, place.path, replacement))
    return found


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    path: tuple[tuple[str, int | None], ...]
    scope: str
    """Class and function, as in Python's qualified names; empty: the module."""
    statement: ast.stmt | None
    in_function: bool
    role: str
    """The name of the field of the parent that the node is in."""


def _places(
    node: ast.AST,
    path: tuple[tuple[str, int | None], ...],
    scope: str,
    statement: ast.stmt | None,
    inside: bool = False,
) -> Iterator[_Place]:
    for field, value in ast.iter_fields(node):
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or _is_declarative(node, field, child):
                continue
            here = (*path, (field, index))
            own = child if isinstance(child, ast.stmt) else statement
            # Defaults, decorators and bases are evaluated when the definition is.
            in_body = inside or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body")
            yield _Place(child, here, scope, own, in_body, field)
            yield from _places(child, here, _inner_scope(scope, child), own, in_body)


def _inner_scope(scope: str, node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{scope}.{node.name}" if scope else node.name
    return scope


def _is_declarative(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """Whether a part of the program is there for readers and tools only, such as annotations and docstrings."""
    if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
        return True
    if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
        return True
    if isinstance(child, ast.keyword) and child.arg in _CHECKS:
        return isinstance(child.value, ast.Constant)
    if isinstance(child, ast.Assign):
        names = {target.id for target in child.targets if isinstance(target, ast.Name)}
        return bool(names & _TYPES) or _declares_type(child.value)
    return isinstance(child, ast.Import | ast.ImportFrom)


def _declares_type(value: ast.expr) -> bool:
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Name) and value.value.id[:1].isupper()
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _DECLARATIONS


def _replacements(place: _Place) -> Iterator[ast.AST]:
    node = place.node
    if isinstance(node, ast.stmt):
        yield from _of_statement(node, place)
    if isinstance(node, ast.expr):
        yield from _of_expression(node)
        if place.role in ("test", "ifs"):
            yield from _of_condition(node, place)


def _of_statement(node: ast.stmt, place: _Place) -> Iterator[ast.AST]:
    if isinstance(node, _DELETED) and place.in_function:
        yield ast.Pass()
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    if isinstance(node, ast.Break):
        yield ast.Continue()
    if isinstance(node, ast.Continue):
        yield ast.Break()


def _of_condition(node: ast.expr, place: _Place) -> Iterator[ast.AST]:
    """A guard that is always or never met; `while True` would only time out."""
    if isinstance(node, ast.Constant):
        return
    if not isinstance(place.statement, ast.While):
        yield ast.Constant(True)
    if not isinstance(place.statement, ast.Assert):
        yield ast.Constant(False)


def _of_expression(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swapped = _COMPARISONS[type(node.ops[0])]
        yield ast.Compare(node.left, [swapped()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str):
        yield ast.Constant(f"XX{value}")


def _lines(statement: ast.stmt | None) -> range:
    """The lines of a statement; of a compound one those of its head."""
    if statement is None:
        return range(0)
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _shown(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node))
    head = " ".join(text.split())
    return head if len(head) <= 100 else f"{head[:97]}..."
