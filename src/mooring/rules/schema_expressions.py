"""Rules of structural schemas in CEL (`x-kubernetes-validations`): compiled when a definition is stored, and evaluated
for each object.

The value that a rule is about is `self`; `oldSelf` is the one before an update. Types come from the schema, so that an
expression with a misspelled field does not compile.

When a CustomResourceDefinition is stored, limits bound what its rules can cost: the cost of a rule is the most that one
evaluation costs, times how often an object can have the value that it is about.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from mooring.api.api_errors import (
    Cause,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_many,
    field_unsupported,
)
from mooring.api.structural_schema import RULES, Schema, field_path, nodes_of
from mooring.cel.budget import Exceeded
from mooring.cel.estimates import LengthsAt, added, multiplied
from mooring.cel.expression import CompileFault, Expression, compile_expression
from mooring.cel.functions.networks import CIDR, IP
from mooring.cel.functions.standard import TYPES
from mooring.cel.functions.texts import VALIDATORS
from mooring.cel.language.checker import Declarations
from mooring.cel.library import Library
from mooring.cel.values import BOOL, DYN, NOTHING, STRING, Fault, Maybe, Type, optional_of
from mooring.rules.device_expressions import FUNCTIONS
from mooring.rules.schema_types import SchemaLengths, SchemaTypes, escaped, value_of
from mooring.rules.schema_values import ABSENT, key_of

EXPRESSION_LIMIT = 10_000_000
"""The most that one expression may cost for an object (upstream: StaticEstimatedCostLimit)."""
SCHEMA_LIMIT = 100_000_000
"""The most that all expressions of a version may cost for an object (upstream: StaticEstimatedCRDCostLimit)."""
_MOST_NAMED = 4
"""How many expressions the answer names if all together cost too much. Each costs a hundredth of the limit or more."""


def repetitions_of(schema: Schema, times: int | None = 1) -> Iterator[tuple[Schema, int | None]]:
    """A node and all below it outside of junctors, each with how often an object can have it; None: only the size of the
    request bounds it."""
    yield schema, times
    below = times
    if schema.type == "array" or (schema.type == "object" and "additionalProperties" in schema.written):
        most = schema.written.get("maxItems" if schema.type == "array" else "maxProperties")
        below = None if times is None or most is None else multiplied(times, max(most, 0))
    for inner in (*schema.properties.values(), schema.items, schema.entries):
        if inner is not None:
            yield from repetitions_of(inner, below)


# ---- limits


@dataclass(slots=True)
class TotalCost:
    """The cost of all expressions of a schema."""

    total: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)
    """The highest costs with the paths of their expressions, the highest first."""

    def add(self, cost: int, path: str, name: str) -> list[Cause]:
        """Count an expression, and tell if it costs too much alone. `name` is what the message calls it."""
        self.total = added(self.total, cost)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda each: -each[0])[:_MOST_NAMED]
        if cost <= EXPRESSION_LIMIT:
            return []
        return [field_forbidden(path, _exceeded(f"estimated {name} cost", cost, EXPRESSION_LIMIT))]

    def faults(self, path: str) -> list[Cause]:
        """The faults if all expressions together cost too much; `path` is that of the schema."""
        if self.total <= SCHEMA_LIMIT:
            return []
        share = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        named = [field_forbidden(place, share) for _, place in self.expensive]
        return [*named, field_forbidden(path, _exceeded(what, self.total, SCHEMA_LIMIT))]


def _exceeded(what: str, cost: int, limit: int) -> str:
    """Parity: the factor has more digits near 1, and none if it is so high that only a limit of lengths can help."""
    factor = cost / limit
    told = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
        "declared"
    )
    return f"{what} exceeds budget by factor of {told} ({advice})"


CALL_LIMIT = 1_000_000
"""The most that one evaluation may cost (upstream: PerCallLimit)."""
OBJECT_LIMIT = 10_000_000
"""The most that all rules together may cost for one object (upstream: RuntimeCELCostBudget)."""
_LEAST_COST = 200
"""An evaluation counts for this much at least against the limit of the object: upstream's costs do not reflect what it takes
to begin one, and an object may have a hundred thousand small parts."""
MAX_RULES = 2000
"""The most rules of a version: each takes about a millisecond to compile, in which no other client is answered."""
MAX_BYTES = 10 * 1024
"""The longest rule that is compiled."""
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

# ---- compiling


@cache
def _library() -> Library:
    return Library(FUNCTIONS)


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule of a node."""

    written: Mapping[str, Any]
    expression: Expression
    message: Expression | None
    uses_old: bool
    field_path: str
    """The path that faults have below the node."""

    @property
    def has_optional_old(self) -> bool:
        return self.written.get("optionalOldSelf") is True

    def default_message(self) -> str:
        told = str(self.written.get("message", "")).strip()
        return told or f"failed rule: {str(self.written.get('rule', '')).strip()}"


@dataclass(slots=True)
class RuleCompiler:
    """Compiles the rules of one node over its types. Without lengths, nothing is known of what rules cost."""

    schema: Schema
    types: SchemaTypes
    lengths: LengthsAt | None = None
    _fields: dict[str, Mapping[str, Type]] = field(default_factory=dict)
    _type: Type | None = None

    def rule(self, written: Mapping[str, Any]) -> Rule:
        """Raises CompileFault."""
        text = str(written.get("rule", ""))
        is_optional = written.get("optionalOldSelf") is True
        expression, uses_old = self._compiled(text, is_optional)
        if expression.type not in (BOOL, DYN):
            raise CompileFault("cel expression must evaluate to a bool")
        message = None
        if told := str(written.get("messageExpression", "")).strip():
            message, _ = self._compiled(told, is_optional)
            if message.type not in (STRING, DYN):
                raise CompileFault("messageExpression must evaluate to a string")
        path = field_path(self.schema, str(written.get("fieldPath", ""))) or ""
        return Rule(written, expression, message, uses_old, path)

    def _compiled(self, text: str, is_optional: bool) -> tuple[Expression, bool]:
        """The expression, and whether it uses `oldSelf`: it does if it does not compile without."""
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise CompileFault(f"compilation failed: Too long: may not be more than {MAX_BYTES} bytes")
        if "oldSelf" in text:
            try:
                return compile_expression(text, self._declared({}), self.lengths), False
            except CompileFault:
                old = optional_of(self._self()) if is_optional else self._self()
                return compile_expression(text, self._declared({"oldSelf": old}), self.lengths), True
        return compile_expression(text, self._declared({}), self.lengths), False

    def _self(self) -> Type:
        if self._type is None:
            self._type = self.types.of(self.schema, "selfType", self._fields)
        return self._type

    def _declared(self, more: Mapping[str, Type]) -> Declarations:
        types = {**TYPES, IP.name: IP, CIDR.name: CIDR}
        return Declarations(_library(), {"self": self._self(), **more}, self._fields, types, VALIDATORS)


def rule_faults(schema: Schema, path: str) -> Iterator[Cause]:
    """The faults of the rules of a new schema: what is missing, expressions that do not compile, and those that may cost too
    much, alone or together. Parity: rules are compiled where neither the node nor one below it has other faults."""
    nodes, faulty, count = [*nodes_of(schema, path)], [], 0
    for node, place in nodes:
        for written, where in _written(node, place):
            count += 1
            if count > MAX_RULES:
                yield field_too_many(path, str(count), f"must have at most {MAX_RULES} validation rules")
                return
            faults = [*_faults_of(written, where, node)]
            yield from faults
            faulty += [place for _ in faults]
    sound = [each for each in nodes if not any(f"{place}.".startswith(f"{each[1]}.") for place in faulty)]
    yield from _expression_faults(schema, path, sound)


def _expression_faults(schema: Schema, path: str, nodes: Iterable[tuple[Schema, str]]) -> Iterator[Cause]:
    """The faults of the expressions of some of the nodes, each with its path, in the order of `nodes_of`."""
    types, lengths, costs = SchemaTypes(), SchemaLengths(), TotalCost()
    repetitions = dict(repetitions_of(schema))
    lists = [place for node, place in nodes_of(schema, path) if node.items is not None and not node.list_keys]
    for node, place in nodes:
        compiler = RuleCompiler(node, types, lengths.of(node))
        unmatched = next((each for each in lists if place.startswith(f"{each}.")), None)
        for written, where in _written(node, place):
            try:
                made = compiler.rule(written)
            except CompileFault as fault:
                yield field_invalid(f"{where}.rule", written, str(fault))
                continue
            times = repetitions[node]
            yield from _cost_faults(made, where, lengths.most_in_a_request(node) if times is None else times, costs)
            if made.uses_old and unmatched is not None:  # an item of such a list is not known again after an update
                about = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unmatched}"
                yield field_invalid(f"{where}.rule", written["rule"], about)
            elif not made.uses_old and "optionalOldSelf" in written:
                about = "may not be set if oldSelf is not used in rule"
                yield field_invalid(f"{where}.optionalOldSelf", written["optionalOldSelf"], about)
    yield from costs.faults(path)


def _cost_faults(rule: Rule, place: str, times: int, costs: TotalCost) -> Iterator[Cause]:
    """The faults of what a rule costs that an object can have so many times. Parity: a message is counted once."""
    yield from costs.add(multiplied(rule.expression.worst_cost, times), f"{place}.rule", "rule")
    if rule.message is not None:
        yield from costs.add(rule.message.worst_cost, f"{place}.messageExpression", "messageExpression")


def _written(node: Schema, place: str) -> Iterator[tuple[Any, str]]:
    """The rules of a node and of its `allOf`, each with its path."""
    yield from ((rule, f"{place}.{RULES}[{i}]") for i, rule in enumerate(node.written.get(RULES, ())))
    for j, part in enumerate(node.all_of):
        rules = enumerate(part.written.get(RULES, ()))
        yield from ((rule, f"{place}.allOf[{j}].{RULES}[{i}]") for i, rule in rules)


def _faults_of(written: Any, place: str, node: Schema) -> Iterator[Cause]:
    """The faults of a rule that show before it is compiled."""
    if not isinstance(written, dict) or not all(isinstance(value, str | bool) for value in written.values()):
        yield field_invalid(place, "", "must be an object with strings and booleans")
        return
    rule, message, field_name = (str(written.get(key, "")) for key in ("rule", "message", "fieldPath"))
    if not rule.strip():
        yield field_required(f"{place}.rule", "rule is not specified")
    elif message and not message.strip():
        yield field_invalid(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield field_invalid(f"{place}.message", message, "must not contain line breaks")
    elif "\n" in rule.strip() and not message:
        yield field_required(f"{place}.message", "message must be specified if rule contains line breaks")
    if written.get("messageExpression") and not str(written["messageExpression"]).strip():
        yield field_required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
    if written.get("reason", _REASONS[0]) not in _REASONS:
        yield field_unsupported(f"{place}.reason", written["reason"], _REASONS)
    if field_name and not field_name.strip():
        yield field_invalid(f"{place}.fieldPath", field_name, "must be non-empty if specified")
    if "\n" in field_name:
        yield field_invalid(f"{place}.fieldPath", field_name, "must not contain line breaks")
    if field_name and field_path(node, field_name) is None:
        yield field_invalid(f"{place}.fieldPath", field_name, "must be a valid path")


# ---- evaluating


@dataclass(slots=True)
class _RuleTree:
    """The rules of a node and of the nodes below that have any."""

    schema: Schema
    rules: list[Rule]
    fields: dict[str, "_RuleTree"]
    items: "_RuleTree | None"
    entries: "_RuleTree | None"


def _tree(schema: Schema, types: SchemaTypes) -> _RuleTree | None:
    """None: neither the node nor one below it has rules. Raises CompileFault."""
    compiler = RuleCompiler(schema, types)
    rules = [compiler.rule(written) for written, _ in _written(schema, "")]
    fields = {name: tree for name, part in schema.properties.items() if (tree := _tree(part, types)) is not None}
    items = None if schema.items is None else _tree(schema.items, types)
    entries = None if schema.entries is None else _tree(schema.entries, types)
    return _RuleTree(schema, rules, fields, items, entries) if rules or fields or items or entries else None


class SchemaRules:
    """The rules of one schema. They are compiled when the first object is checked."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.is_empty = not any(rule for node, place in nodes_of(schema, "") for rule in _written(node, place))
        self._tree: _RuleTree | None = None
        self._is_compiled = False

    def faults(self, value: Any, old: Any = ABSENT) -> list[Cause]:
        """The faults of an object by all rules; `old` is the object before an update."""
        if not self._is_compiled:
            try:
                self._tree, self._is_compiled = _tree(self._schema, SchemaTypes()), True
            except CompileFault as fault:  # an earlier release has stored the definition
                return [field_invalid("<nil>", "", f"rule compile error: {fault}")]
        if self._tree is None:
            return []
        found = _Evaluation()
        before = None if old is ABSENT else _Seen(old, value_of(self._schema, old))
        found.run(self._tree, _Seen(value, value_of(self._schema, value)), before, "")
        return found.faults


class _Seen(NamedTuple):
    """A value as it is written, and as CEL sees it. Both are walked together: each value is converted once."""

    raw: Any
    value: Any

    def field(self, schema: Schema, name: str) -> "_Seen":
        key = escaped(name) if name in schema.properties or schema.is_resource else name
        known = self.value.get(key, ABSENT) if key is not None else ABSENT
        raw = self.raw[name]
        return _Seen(raw, value_of(schema.at(name), raw) if known is ABSENT else known)

    def items(self) -> "list[_Seen]":
        return [_Seen(raw, value) for raw, value in zip(self.raw, self.value, strict=True)]


@dataclass(slots=True)
class _Evaluation:
    """The evaluation of all rules for one object."""

    faults: list[Cause] = field(default_factory=list)
    left: int = field(default_factory=lambda: OBJECT_LIMIT)

    def run(self, tree: _RuleTree, new: _Seen, old: _Seen | None, path: str) -> None:
        """The rules of a value and of all in it, until the budget is used up. A null has no rules."""
        if new.raw is None or self.left < 0:
            return
        if tree.rules:
            self._rules(tree, new, old, path)
        if isinstance(new.raw, dict):
            before = old if old is not None and isinstance(old.raw, dict) else None
            for name in new.raw:
                part = tree.fields.get(name, tree.entries if name not in tree.schema.properties else None)
                if part is None:
                    continue
                known = before.field(tree.schema, name) if before is not None and name in before.raw else None
                place = f"{path}[{name}]" if part is tree.entries else f"{path}.{name}".removeprefix(".")
                self.run(part, new.field(tree.schema, name), known, place)
        elif isinstance(new.raw, list) and tree.items is not None:
            by_key = {}
            if old is not None and tree.schema.list_keys and isinstance(old.raw, list):
                by_key = {key_of(tree.schema, item.raw): item for item in old.items()}
            for i, item in enumerate(new.items()):
                self.run(tree.items, item, by_key.get(key_of(tree.schema, item.raw)), f"{path}[{i}]")

    def _rules(self, tree: _RuleTree, new: _Seen, old: _Seen | None, path: str) -> None:
        """Parity: a rule about a part that has not changed does not block an update, unless it compares with the old one."""
        is_same = old is not None and old.raw == new.raw
        for rule in tree.rules:
            if self.left < 0 or (rule.uses_old and old is None and not rule.has_optional_old):
                continue
            if is_same and not rule.uses_old:
                continue
            known = None if old is None else old.value
            if rule.has_optional_old:
                known = NOTHING if old is None else Maybe(known, True)
            self._judge(rule, {"self": new.value, "oldSelf": known}, new.raw, path, tree.schema.type)

    def _judge(self, rule: Rule, variables: Mapping[str, Any], value: Any, path: str, of_type: str) -> None:
        """Evaluate one rule, and tell what it finds."""
        told = str(rule.written.get("rule", "")).strip()
        result = self._evaluated(rule.expression, variables)
        if result is None:
            over = self.left < CALL_LIMIT
            why = f"no further validation rules will be run due to call cost exceeds limit for rule: {told}"
            why = _BUDGET if over else f"'operation cancelled: actual cost limit exceeded': {why}"
            self.faults.append(Cause("FieldValueInvalid", f"Invalid value: {why}", path or "<nil>"))
            self.left = -1
        elif isinstance(result, Fault):
            self.faults.append(field_invalid(path or "<nil>", of_type, f"{result.text} evaluating rule: {told}"))
        elif result is not True:
            place = f"{path}{rule.field_path}".removeprefix(".")
            self.faults.append(_fault(rule, place or "<nil>", value, self._message(rule, variables)))

    def _evaluated(self, expression: Expression, variables: Mapping[str, Any]) -> Any:
        """The value of an expression; None: it costs too much, or the budget of the object is used up."""
        if self.left < 0:
            return None
        try:
            result, cost = expression.evaluate(variables, min(CALL_LIMIT, self.left))
        except Exceeded:
            return None
        self.left -= max(cost, _LEAST_COST)
        return result

    def _message(self, rule: Rule, variables: Mapping[str, Any]) -> str:
        """The message of a rule. One that cannot be computed, or has line breaks, counts as not given."""
        if rule.message is None:
            return rule.default_message()
        made = self._evaluated(rule.message, variables)
        is_good = isinstance(made, str) and made.strip() and "\n" not in made
        return made.strip() if is_good else rule.default_message()


def _fault(rule: Rule, path: str, value: Any, why: str) -> Cause:
    """The fault that a rule finds, by its reason. Lists and objects are not shown."""
    match rule.written.get("reason"):
        case "FieldValueForbidden":
            return field_forbidden(path, why)
        case "FieldValueRequired":
            return field_required(path, why)
        case "FieldValueDuplicate":
            return field_duplicate(path, value if not isinstance(value, dict | list) else why)
    if isinstance(value, dict | list):
        return Cause("FieldValueInvalid", f"Invalid value: {why}", path)
    return field_invalid(path, value, why)
