"""A compiled CEL expression: text in, value and cost out. This is the entrance to the package.

Compiling parses the text, checks its types and plans its evaluation. An expression is compiled once and evaluated for each
device.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mooring.cel.budget import WORK, Exceeded, Frame
from mooring.cel.costs import LIST_LITERAL, MAP_LITERAL, Cost, cost_of, nominal
from mooring.cel.estimates import LengthsAt
from mooring.cel.evaluation import (
    AccessStep,
    EvaluationPlan,
    Loop,
    Run,
    alternative,
    appending,
    conditional,
    fresh,
    inserting,
    listed,
    logical,
    mapped,
    no_overload,
    not_iterable,
    not_strictly_false,
    path_of,
)
from mooring.cel.functions.regex import compiled
from mooring.cel.language.checker import Declarations, check
from mooring.cel.language.macros import ADD, MAP_INSERT, NOT_STRICTLY_FALSE
from mooring.cel.language.parser import parse
from mooring.cel.language.syntax import (
    CallExpression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxFault,
    SyntaxNode,
    TreeWalk,
)
from mooring.cel.library import Library
from mooring.cel.values import Fault, Type, TypeName, Uint, equal, key_of
from mooring.cel.worst_case import worst_cost

# ---- The planner: from a checked tree to nested functions that evaluate it. An expression is planned once and run
# for each device.
#
# Costs are cel-go's: reading a variable and each further step costs 1; constants, and literals of constants alone,
# cost nothing. Parity: a presence test costs what it reads, and a variable that a conditional chooses costs nothing.


_PLAIN = frozenset((bool, int, Uint, float, str, bytes))
"""Types for which the Python class alone decides between overloads."""
FOLD_STEPS = 5
"""The work that a comprehension counts for (budget.Work): cel-go charges nothing for it, but it takes microseconds."""
_CONVERSIONS = frozenset(["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"])
"""Functions that cel-go evaluates at compile time if their argument is a constant."""


class PlanFault(Exception):
    """A constant part of the expression fails to evaluate, so that the expression does not compile."""


def _constant(value: Any) -> EvaluationPlan:
    return EvaluationPlan(lambda frame: value, True, value)


class _Planner(TreeWalk[EvaluationPlan]):
    """Plans the nodes of one tree. `_scopes` has the slots of the variables of enclosing comprehensions."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._scopes: list[dict[str, int]] = []
        self._planned: dict[int, EvaluationPlan] = {}
        """Plans by the identity of their node; the tree lives longer than the planner."""
        self.slots = 0

    def plan(self, node: SyntaxNode) -> EvaluationPlan:
        """The plan of a node. Macros can use a node twice, and nested macros a node 2^n times: each is planned once."""
        planned = self._planned.get(id(node))
        if planned is None:
            planned = self._planned[id(node)] = self.of(node)
        return planned

    def _literal(self, node: Literal) -> EvaluationPlan:
        return _constant(node.value)

    def _ident(self, node: Ident | Select) -> EvaluationPlan:
        return _constant(TypeName(str(node.type.params[0]))) if self._is_type(node) else self._path(node)

    _select = _ident

    def _is_type(self, node: Ident | Select) -> bool:
        """Whether the name is that of a type, as in `type(x) == int`."""
        if isinstance(node, Select):
            return node.qualified is not None
        return node.type.name == "type" and not any(node.name in scope for scope in self._scopes)

    # ---- variables and paths

    def _path(self, node: SyntaxNode) -> EvaluationPlan:
        """`device.attributes["x"].b` is one variable with three steps."""
        steps: list[AccessStep] = []
        while True:
            if isinstance(node, Select) and node.qualified is None:
                steps.append(AccessStep(node.name, is_test=node.is_test))
                node = node.operand
            elif isinstance(node, CallExpression) and node.function in ("_[_]", "_[?_]", "_?._"):
                steps.append(self._index(node.args[1], node.function != "_[_]"))
                node = node.args[0]
            else:
                break
        root, cost = self._root(node)
        return self._walk(root, cost, steps[::-1])

    def _walk(self, root: Run, cost: int, steps: Sequence[AccessStep]) -> EvaluationPlan:
        is_test = bool(steps) and steps[-1].is_test
        run = path_of(root, steps, cost - is_test)
        return EvaluationPlan(run, bare=path_of(root, steps, 0) if cost and not is_test else run)

    def _root(self, node: SyntaxNode) -> tuple[Run, int]:
        """How to evaluate the first value of a path, and what that costs in addition."""
        if isinstance(node, Ident) and not self._is_type(node):
            return self._variable(node), 1
        planned = self.plan(node)
        if isinstance(node, CallExpression) and node.function == "_?_:_":
            return planned.run, 0
        return planned.run, 1

    def _variable(self, node: Ident) -> Run:
        """Reads a slot for a variable of a comprehension, or a variable of the evaluation."""
        name = node.name
        for scope in reversed(self._scopes):
            if name in scope:
                slot = scope[name]
                return lambda frame: frame.slots[slot]
        return lambda frame: frame.variables[name]

    def _index(self, key: SyntaxNode, is_optional: bool) -> AccessStep:
        """A step with a key. If the key is a path itself, that path has charged the step already."""
        planned = self.plan(key)
        if planned.is_constant:
            return AccessStep(planned.value, is_optional=is_optional)
        is_path = isinstance(key, Ident | Select) or (isinstance(key, CallExpression) and key.function in _PATHS)
        return AccessStep(None, planned.run, 0 if is_path else 1, is_optional)

    # ---- calls

    def _call(self, node: CallExpression) -> EvaluationPlan:
        """Operators and functions that do not evaluate all arguments are planned here, all others by `_declared`."""
        function = node.function
        if function in ("_[_]", "_[?_]", "_?._"):
            return self._path(node)
        args = [self.plan(operand) for operand in node.operands()]
        if function in ("_&&_", "_||_"):
            return EvaluationPlan(logical([arg.run for arg in args], function == "_||_"))
        if function == "_?_:_":
            return EvaluationPlan(conditional(args[0].run, args[1].bare or args[1].run, args[2].bare or args[2].run))
        if function in ("or", "orValue") and node.target is not None:
            return EvaluationPlan(alternative(args[0].run, args[1].run, function == "orValue"))
        if function == NOT_STRICTLY_FALSE:
            return EvaluationPlan(not_strictly_false(args[0].run))
        if function in ("_==_", "_!=_"):
            return EvaluationPlan(self._equality(function, args))
        return self._declared(node, args)

    def _equality(self, function: str, args: Sequence[EvaluationPlan]) -> Run:
        """`==` and `!=` accept values of any types, so that they need no overload."""
        one, other = args[0].run, args[1].run
        cost, wanted = cost_of(function, "equals"), function == "_==_"

        def run(frame: Frame) -> Any:
            a, b = one(frame), other(frame)
            frame.charge(cost((a, b), None))
            if a.__class__ is Fault:
                return a
            return b if b.__class__ is Fault else equal(a, b) is wanted

        return run

    def _declared(self, node: CallExpression, args: Sequence[EvaluationPlan]) -> EvaluationPlan:
        """A call of a function of the library. Constant patterns and conversions are evaluated now, as in cel-go."""
        function = node.function
        overload = node.overloads[0].id if len(node.overloads) == 1 else ""
        if overload == "in_list" and args[1].is_constant:
            found = _membership(args[0], args[1].value)
            if found is not None:
                return found
        if function in ("find", "findAll") and args[1].is_constant:
            pattern = compiled(args[1].value)
            if isinstance(pattern, Fault):
                raise PlanFault(pattern.text)
        runs, cost = [arg.run for arg in args], cost_of(function, overload)
        run = self._calling_two(node, cost, *runs) if len(runs) == 2 else self._calling(node, runs, cost)
        if function in _CONVERSIONS and len(args) == 1 and args[0].is_constant:
            value = run(Frame({}, 0, 1 << 62))
            if value.__class__ is Fault:
                raise PlanFault(value.text)
            return _constant(value)
        return EvaluationPlan(run)

    def _calling(self, node: CallExpression, args: Sequence[Run], cost: Cost) -> Run:
        """Evaluates arguments and calls the overload for them. Parity: a call with an error as argument is charged, too."""
        function, is_member, act_of = node.function, node.target is not None, self._library.act_of

        def run(frame: Frame) -> Any:
            values = [arg(frame) for arg in args]
            for value in values:
                if value.__class__ is Fault:
                    result = value
                    break
            else:
                act = act_of(function, is_member, values)
                result = act(*values) if act is not None else no_overload(function, values)
            frame.charge(cost(values, result))
            return result

        return run

    def _calling_two(self, node: CallExpression, cost: Cost, one: Run, other: Run) -> Run:
        """Hot: as above for two arguments. It remembers the function for each pair of plain types, without the library's
        lookup."""
        function, is_member, act_of = node.function, node.target is not None, self._library.act_of
        known: dict[tuple[type, type], Any] = {}

        def run(frame: Frame) -> Any:
            a, b = one(frame), other(frame)
            kinds = (a.__class__, b.__class__)
            act = known.get(kinds)
            if act is not None:
                result = act(a, b)
            elif Fault in kinds:
                result = a if kinds[0] is Fault else b
            else:
                act = act_of(function, is_member, (a, b))
                if act is not None and _PLAIN.issuperset(kinds):
                    known[kinds] = act
                result = act(a, b) if act is not None else no_overload(function, (a, b))
            frame.cost += 1 if cost is nominal else cost((a, b), result)
            if frame.cost > frame.limit:
                raise Exceeded
            return result

        return run

    # ---- lists and maps

    def _list(self, node: ListLiteral) -> EvaluationPlan:
        """A list of constants is a constant itself, and free."""
        plans = [self.plan(element) for element in node.elements]
        if not node.optional and all(each.is_constant for each in plans):
            return _constant([each.value for each in plans])
        runs, optional = [each.run for each in plans], node.optional

        def run(frame: Frame) -> Any:
            values = [each(frame) for each in runs]
            frame.charge(LIST_LITERAL)
            return listed(values, optional)

        return EvaluationPlan(run)

    def _map(self, node: MapLiteral) -> EvaluationPlan:
        """A map of constants is a constant itself; an invalid key is an error now."""
        plans = [(self.plan(key), self.plan(value), is_optional) for key, value, is_optional in node.entries]
        if all(key.is_constant and value.is_constant and not is_optional for key, value, is_optional in plans):
            made = mapped([(key.value, value.value, False) for key, value, _ in plans])
            if made.__class__ is Fault:
                raise PlanFault(made.text)
            return _constant(made)
        runs = [(key.run, value.run, is_optional) for key, value, is_optional in plans]

        def run(frame: Frame) -> Any:
            entries = [(key(frame), value(frame), is_optional) for key, value, is_optional in runs]
            frame.charge(MAP_LITERAL)
            return mapped(entries)

        return EvaluationPlan(run)

    # ---- comprehensions

    def _fold(self, node: Fold) -> EvaluationPlan:
        """A comprehension. Its variables get slots of their own, so that nested ones do not overwrite each other; the
        result sees the accumulator, but not the variables."""
        ranged, init = self.plan(node.range).run, self.plan(node.init)
        accu, var, var2 = self.slots, self.slots + 1, self.slots + 2
        self.slots += 3
        self._scopes.append({node.accu: accu})
        self._scopes.append({node.var: var, **({node.var2: var2} if node.var2 else {})})
        condition, step = self.plan(node.condition), self._step(node, node.step, accu)
        self._scopes.pop()
        result = self.plan(node.result).run
        self._scopes.pop()
        start = fresh(init)
        loop = Loop(accu, var, var2 if node.var2 else None, condition, step)

        def run(frame: Frame) -> Any:
            WORK.spend(FOLD_STEPS)
            elements = ranged(frame)
            if elements.__class__ is Fault:
                return elements
            if not isinstance(elements, list | dict):
                return not_iterable(elements, loop.var2 is not None)
            frame.slots[accu] = start(frame)
            loop.run(frame, elements)
            return result(frame)

        return EvaluationPlan(run)

    def _step(self, node: Fold, step: SyntaxNode, accu: int) -> Run:
        """The step of a comprehension: from the result so far to the next.

        Hot: `result + [x]` and the insertion into a map change the result in place, or the work would grow with the
        square of the elements. Nothing else can see the result before the loop ends.
        """
        if isinstance(step, CallExpression) and step.function == "_?_:_" and step.type.name in ("list", "map"):
            condition, then, other = step.args
            otherwise = self.plan(other)
            return conditional(self.plan(condition).run, self._step(node, then, accu), otherwise.bare or otherwise.run)
        first = step.args[0] if isinstance(step, CallExpression) and step.args else None
        if isinstance(step, CallExpression) and isinstance(first, Ident) and first.name == node.accu:
            if step.function == ADD and isinstance(step.args[1], ListLiteral):
                return appending(accu, self.plan(step.args[1]).run)
            if step.function == MAP_INSERT:
                return inserting(accu, [self.plan(arg).run for arg in step.args[1:]])
        return self.plan(step).run


_PATHS = ("_[_]", "_[?_]", "_?._", "_?_:_")


def _membership(value: EvaluationPlan, elements: list[Any]) -> EvaluationPlan | None:
    """`x in [1, 2]` with constants: a lookup in a set, for which cel-go charges nothing. None if an element does not fit
    into a set."""
    if not elements:
        return _constant(False)
    if any(element.__class__ is bytes or isinstance(element, list | dict) for element in elements):
        return None
    found, run = frozenset(map(key_of, elements)), value.run

    def look(frame: Frame) -> Any:
        sought = run(frame)
        if sought.__class__ is Fault:
            return sought
        try:
            return key_of(sought) in found
        except TypeError:  # a list or a map: it is in no set
            return False

    return EvaluationPlan(look)


STACK = 8_000
"""How deep Python calls may nest: an expression nests at most 250 deep, and each level takes about eight calls to parse;
the rest is reserve for the callers."""


class CompileFault(Exception):
    """The expression does not compile; the text is upstream's as far as possible."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression and its type."""

    run: Run
    slots: int
    """How many slots its comprehensions need in a frame."""
    type: Type
    worst_cost: int = 0
    """The most that an evaluation can cost, whatever the values of the variables; 0 if it was compiled without lengths."""

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """The value and its cost. The value is a Fault if the evaluation fails. Raises Exceeded above `limit`."""
        frame = Frame(dict(variables), self.slots, limit)
        WORK.begin(limit)
        with _deep_stack():
            return self.run(frame), frame.cost


def compile_expression(text: str, declarations: Declarations, size_at: LengthsAt | None = None) -> Expression:
    """An expression over the declared variables and functions. With the lengths of their values it knows its worst cost.
    Raises CompileFault."""
    with _deep_stack():
        try:
            root = parse(text)
            found = check(root, declarations)
        except SyntaxFault as fault:
            raise CompileFault(f"compilation failed: {fault.told(text)}") from None
        planner = _Planner(declarations.library)
        try:
            run = planner.plan(root).run
        except PlanFault as fault:
            raise CompileFault(f"program instantiation failed: {fault}") from None
        return Expression(run, planner.slots, found, 0 if size_at is None else worst_cost(root, size_at))


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
