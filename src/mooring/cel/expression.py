"""A compiled CEL expression: text in, value and cost out. This is the entrance to the package.

Compiling parses the text, checks its types and plans its evaluation. An expression is compiled once and evaluated for each
device.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mooring.cel.budget import WORK, Frame
from mooring.cel.language.checker import Declarations, check
from mooring.cel.language.parser import parse
from mooring.cel.language.syntax import SyntaxFault
from mooring.cel.plan import PlanFault, Program, plan
from mooring.cel.values import Type

STACK = 8_000
"""How deep Python calls may nest: an expression nests at most 250 deep, and each level takes about eight calls to parse;
the rest is reserve for the callers."""


class CompileFault(Exception):
    """The expression does not compile; the text is upstream's as far as possible."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression and its type."""

    program: Program
    type: Type

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """The value and its cost. The value is a Fault if the evaluation fails. Raises Exceeded above `limit`."""
        frame = Frame(dict(variables), self.program.slots, limit)
        WORK.begin(limit)
        with _deep_stack():
            return self.program.run(frame), frame.cost


def compile_expression(text: str, declarations: Declarations) -> Expression:
    """An expression over the declared variables and functions. Raises CompileFault."""
    with _deep_stack():
        try:
            root = parse(text)
            type = check(root, declarations)
        except SyntaxFault as fault:
            raise CompileFault(f"compilation failed: {fault.told(text)}") from None
        try:
            return Expression(plan(root, declarations.library), type)
        except PlanFault as fault:
            raise CompileFault(f"program instantiation failed: {fault}") from None


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Raise Python's limit of 1,000 nested calls. Calls of Python functions take no space on the machine's stack (since
    Python 3.11), so that a higher limit is safe."""
    before = sys.getrecursionlimit()
    if before >= STACK:
        yield
        return
    sys.setrecursionlimit(STACK)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
