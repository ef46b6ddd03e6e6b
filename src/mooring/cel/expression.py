"""A compiled expression: text in, value and cost out."""

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
"""Calls that may nest: an expression nests 250 deep at most, and each level takes some eight calls to parse."""


class CompileFault(Exception):
    """The expression cannot be evaluated at all; the text is upstream's as far as possible."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    program: Program
    type: Type

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """The value, which is a Fault where the evaluation fails, and what it cost. Raises Exceeded."""
        frame = Frame(dict(variables), self.program.slots, limit)
        WORK.begin()
        with _deep_stack():
            return self.program.run(frame), frame.cost


def compile_expression(text: str, declarations: Declarations) -> Expression:
    """Raises CompileFault."""
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
    """Python stops at 1000 nested calls; they take no room on the machine's stack, so that more do no harm."""
    before = sys.getrecursionlimit()
    if before >= STACK:
        yield
        return
    sys.setrecursionlimit(STACK)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
