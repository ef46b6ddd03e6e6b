"""What an expression consists of, and what is wrong with one that does not compile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.cel.types import DYN, Type

if TYPE_CHECKING:
    from mooring.cel.library import Overload

MAX_DEPTH = 250
"""How deep expressions nest, as cel-go limits it."""


class SyntaxFault(Exception):
    """The expression cannot be compiled."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position

    def told(self, source: str) -> str:
        """As cel-go tells it: the place, the line, and a mark below it.

        ERROR: <input>:1:8: Syntax error
         | device.
         | .......^
        """
        before = source[: self.position]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
        shown = source.split("\n")[line - 1]
        return f"ERROR: <input>:{line}:{column + 1}: {self.text}\n | {shown}\n | {'.' * column}^"


@dataclass(slots=True, eq=False)
class SyntaxNode:
    position: int
    type: Type = field(default=DYN, init=False)
    is_checked: bool = field(default=False, init=False)
    """A macro may use an argument twice; it is checked once."""


@dataclass(slots=True, eq=False)
class Literal(SyntaxNode):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(SyntaxNode):
    name: str


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    operand: SyntaxNode
    name: str
    is_test: bool = False
    """`has(operand.name)`."""
    qualified: str | None = None
    """The name of a type that `a.b` turned out to be."""


@dataclass(slots=True, eq=False)
class CallExpression(SyntaxNode):
    function: str
    target: SyntaxNode | None
    args: Sequence[SyntaxNode]
    overloads: Sequence["Overload"] = ()
    """Those that the types allow."""

    def operands(self) -> list[SyntaxNode]:
        return [*self.args] if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(SyntaxNode):
    elements: Sequence[SyntaxNode]
    optional: frozenset[int] = frozenset()
    """Which elements are there only if they have a value."""


@dataclass(slots=True, eq=False)
class MapLiteral(SyntaxNode):
    entries: Sequence[tuple[SyntaxNode, SyntaxNode, bool]]
    """Key, value, and whether the entry is optional."""


@dataclass(slots=True, eq=False)
class Fold(SyntaxNode):
    """A comprehension: `accu` starts as `init` and becomes `step` for each element while `condition` holds."""

    range: SyntaxNode
    var: str
    var2: str
    accu: str
    init: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode
