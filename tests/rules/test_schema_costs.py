"""The cost that an API server estimates for rules of a CustomResourceDefinition: the numbers that upstream's tests publish
(TestCostEstimation, TestCelEstimatedCostStability, TestCostInfo and TestPerCRDEstimatedCost), and what users see.
"""

from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.structural_schema import Schema, read_schema
from mooring.cel.estimates import LIMITLESS
from mooring.rules.schema_expressions import RuleCompiler, TotalCost, repetitions_of, rule_faults
from mooring.rules.schema_types import SchemaLengths, SchemaTypes

Written = dict[str, Any]
TOO_COSTLY = LIMITLESS
"""Stands for any cost above what one evaluation may cost, where upstream publishes no number."""


def of_type(kind: str, **more: Any) -> Written:
    if kind == "int-or-string":
        return {"x-kubernetes-int-or-string": True} | more
    if kind in ("duration", "date", "date-time", "byte"):
        return {"type": "string", "format": kind} | more
    return {"type": kind} | more


def limited(written: Written, key: str, most: int | None) -> Written:
    return written if most is None else written | {key: most}


def a_list(items: Written, most: int | None = None) -> Written:
    return limited({"type": "array", "items": items}, "maxItems", most)


def a_map(values: Written, most: int | None = None) -> Written:
    return limited({"type": "object", "additionalProperties": values}, "maxProperties", most)


def fields(**properties: Written) -> Written:
    return {"type": "object", "properties": properties}


def a_text(most: int | None = None, **more: Any) -> Written:
    return limited({"type": "string"} | more, "maxLength", most)


THING = fields(required=a_text(), optional=a_text()) | {"required": ["required"]}
"""An object with one required field."""


def read(written: Written) -> Schema:
    """A node below the root, which is no object of the API."""
    schema, faults = read_schema(fields(spec=written), "")
    assert not faults
    return schema.properties["spec"]


def cost(written: Written, rule: str) -> int:
    """The most that one evaluation of a rule costs."""
    schema = read(written)
    return RuleCompiler(schema, SchemaTypes(), SchemaLengths().of(schema)).rule({"rule": rule}).expression.worst_cost


def lists_of(kind: str) -> Callable[[int | None], Written]:
    return lambda most: a_list(of_type(kind), most)


def maps_of(values: str | Written) -> Callable[[int | None], Written]:
    return lambda most: a_map(of_type(values) if isinstance(values, str) else values, most)


def replaced(most: int | None) -> Written:
    return fields(str=a_text(most), before=a_text(2), after=a_text(4))


ALL = "self.all(x, true)"
NESTED = 'self.all(x, x["y"].required == "z")'
LIMITED_OR_NOT: dict[str, tuple[Callable[[int | None], Written], str, int, int, int]] = {
    "a list of numbers": (lists_of("number"), ALL, 4718591, 10, 32),
    "a list of texts": (lists_of("string"), ALL, 3145727, 20, 62),
    "a list of booleans": (lists_of("boolean"), ALL, 1887437, 5, 17),
    "a list of lists": (lambda most: a_list(a_list(of_type("number")), most), ALL, 3145727, 100, 302),
    "a list of objects": (lambda most: a_list(THING, most), ALL, 555128, 50, 152),
    "a list of numbers or texts": (lists_of("int-or-string"), ALL, 4718591, 10, 32),
    "a list of durations": (lists_of("duration"), ALL, 2359295, 5, 17),
    "a list of dates": (lists_of("date"), ALL, 725936, 15, 47),
    "a list of times": (lists_of("date-time"), ALL, 428963, 25, 77),
    "a list of maps": (
        lambda most: a_list(a_map(of_type("number")), most),
        "self.all(x, x.y == 25.2)",
        6291452,
        12,
        74,
    ),
    "a map of numbers": (maps_of("number"), ALL, 1348169, 10, 32),
    "a map of texts": (maps_of("string"), ALL, 1179647, 3, 11),
    "a map of booleans": (maps_of("boolean"), ALL, 943718, 100, 302),
    "a map of numbers or texts": (maps_of("int-or-string"), ALL, 1348169, 15, 47),
    "a map of objects": (maps_of(THING), ALL, 428963, 20, 62),
    "a map of maps": (maps_of(a_map(of_type("number"))), ALL, 1179647, 10, 32),
    "a map of lists": (maps_of(a_list(of_type("number"))), ALL, 1179647, 25, 77),
    "a map of durations": (maps_of("duration"), ALL, 1048577, 5, 17),
    "a map of dates": (maps_of("date"), ALL, 524288, 10, 32),
    "a map of times": (maps_of("date-time"), ALL, 349526, 25, 77),
    "a text in a text": (a_text, "self.contains('test')", 314574, 10, 5),
    "the start of a text": (a_text, "self.startsWith('test')", 2, 15, 2),
    "a longer text": (a_text, 'size(self + "hello") > size("hello")', 314578, 4, 7),
    "a pattern": (a_text, 'self.matches("x")', 314574, 50, 22),
    "a pattern for an empty text": (a_text, '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7),
    "an empty pattern": (a_text, 'self.matches("")', 1, 100, 1),
    "an empty text": (a_text, 'self == "x"', 2, 0, 1),
    "empty bytes": (lambda most: a_text(most, format="byte"), 'self == b"x"', 2, 0, 1),
    "an item that is a number": (lists_of("number"), "self[1] == 0.0", 2, 5000, 2),
    "an item that is a text": (lists_of("string"), "self[1] == self[1]", 314577, 8, 314577),
    "an item that is a number or a text": (lists_of("int-or-string"), "self[0] == 5", 3, 10, 3),
    "an item that is a duration": (lists_of("duration"), "self[0].getHours() == 2", 4, 525, 4),
    "an item of an item": (lambda most: a_list(a_list(of_type("number")), most), "self[0][0] == -1.0", 3, 51, 3),
    "a loop in a loop": (lists_of("number"), "self.all(x, self.all(y, true))", TOO_COSTLY, 10, 352),
    "three loops": (lists_of("number"), "self.all(x, self.all(y, self.all(z, true)))", TOO_COSTLY, 10, 3552),
    "a limit above what a request can have": (
        *(lists_of("number"), "self.all(x, x == 0.0)"),
        *(6291454, 3 * 1024 * 2048, 25165826),
    ),
    "keys in values": (lambda most: a_map(a_text(most), most), "self.all(x, x.contains(self[x]))", 2752507, 10, 72),
    "objects in maps in a list": (lambda most: a_list(a_map(THING, most), most), NESTED, 7340027, 10, 72),
    "a limit of the inner map alone": (lambda most: a_list(a_map(THING, most)), NESTED, 7340027, 10, 7340027),
    "a search by a pattern": (a_text, "self.find('[0-9]+') == ''", 629147, 10, 11),
    "joined texts": (lambda most: a_list(a_text(most), most), "self.join(' ') == 'aa bb'", 329853068905, 10, 43),
    "sorted texts": (lambda most: a_list(a_text(most), most), "self.isSorted() == true", 329854432052, 10, 52),
    "a replacement": (replaced, "self.str.replace(self.before, self.after) == 'does not matter'", 629154, 4, 12),
    "a split text": (
        *(lambda most: fields(str=a_text(most), separator=a_text(most)), "self.str.split(self.separator) == []"),
        *(629160, 10, 22),
    ),
    "lower case": (a_text, "self.lowerAscii() == 'lower!'", 314575, 10, 6),
    "the old size": (maps_of("integer"), "oldSelf.size() == self.size()", 5, 10, 5),
    "two times": (maps_of("date-time"), 'self["a"] == self["b"]', 8, 7, 8),
    "one of some texts": (lambda most: a_text(most, enum=["A", "LongValue"]), "self.contains('A')", 2, 1000, 401),
    "a quantity": (
        *(lambda most: limited({"x-kubernetes-int-or-string": True}, "maxLength", most), "isQuantity(self)"),
        *(314574, 20, 9),
    ),
}
"""What a rule is about, the rule, its cost without a limit, a limit, and the cost with it."""


@pytest.mark.parametrize(("made", "rule", "free", "most", "bounded"), LIMITED_OR_NOT.values(), ids=LIMITED_OR_NOT)
def test_limits_in_the_schema_lower_the_cost_of_a_rule(
    made: Callable[[int | None], Written], rule: str, free: int, most: int, bounded: int
) -> None:
    found = cost(made(None), rule)
    assert found == free or (free == TOO_COSTLY and found > 1_000_000)
    assert cost(made(most), rule) == bounded


LISTS = fields(val1=a_list(of_type("integer")), val2=a_list(of_type("integer")))
NUMBERED = fields(listMap=a_list(fields(k=a_text(), v=a_text(), v2=a_text())))
OBJECTS = fields(objs=a_list(fields(f1=a_text(), f2=a_text())))
EMBEDDED = fields(
    e={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": fields(f=a_text())}}
)
PERCENT = fields(min=of_type("int-or-string"), current=of_type("integer"), available=of_type("integer"))
KINDS = fields(
    val1=of_type("integer"),
    val2=of_type("number"),
    val6=a_text(),
    val7=of_type("byte"),
    val8=a_text(),
    val9=of_type("duration"),
    val10=a_text(),
    val11=of_type("date-time"),
)
OF_OBJECTS: tuple[tuple[Written, dict[str, int]], ...] = (
    (
        LISTS,
        {
            "1 in self.val1": 1572865,
            "self.val2[0] in self.val1": 1572868,
            "self.val1 + self.val2 == [1, 2, 3, 1, 2, 3]": 16,
            "has(self.val1) && has(self.val2)": 2,
            "self.val1.all(k, size(self.val1) > 0)": 11010044,
            "self.val1.exists_one(k, self.val1 == [2])": 23592949,
            "size(self.val1.filter(k, size(self.val1) > 1)) == 1": 26738686,
            "self.val1.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)": 53477367,
        },
    ),
    (
        NUMBERED,
        {
            "self.listMap.all(m, !has(m.v2) || m.v2 == 'z')": 8388603,
            "self.listMap.exists(m, m.k == 'a1' && m.v == 'b1')": 10485753,
            "self.listMap.map(m, m.v).exists(v, v == 'b1')": 19922939,
            "self.listMap.filter(m, has(m.v2) && m.v2 == 'z').map(m, m.v2).size() == 1": 32505851,
        },
    ),
    (OBJECTS, {"self.objs[0] == self.objs[1]": 6}),
    (fields(val=a_map(of_type("integer"))), {"size(self.val.filter(k, self.val[k] > 1)) == 1": 8089017}),
    (EMBEDDED, {"self.e.kind == 'Pod'": 4, "self.e.metadata.name == 'foo'": 5, "self.e.spec.f == 'a'": 5}),
    (
        PERCENT,
        {
            r"type(self.min) == string && self.min.matches(r'(\d+(\.\d+)?%)')": 1258298,
            "type(self.min) == int ? self.current <= self.min : double(self.current) / double(self.available) "
            ">= double(self.min.replace('%', '')) / 100.0": 629162,
        },
    ),
    (
        KINDS,
        {
            "int(self.val2) == self.val1": 5,
            "bytes(self.val6) == self.val7": 629150,
            "string(self.val1) == self.val6": 314578,
            "duration(self.val8) == self.val9": 6,
            "timestamp(self.val10) == self.val11": 6,
            "string(self.val11) == self.val10": 314578,
        },
    ),
)


@pytest.mark.parametrize(
    ("written", "rule", "most"),
    [(written, rule, most) for written, rules in OF_OBJECTS for rule, most in rules.items()],
)
def test_rules_about_fields_cost_what_upstream_publishes(written: Written, rule: str, most: int) -> None:
    assert cost(written, rule) == most


def test_names_of_objects_are_short() -> None:
    """A name has at most 253 characters of four bytes, and a shorter limit of the schema holds: 1 for each read, 101 for the
    walk."""
    root, _ = read_schema({"type": "object"}, "")
    short, _ = read_schema(fields(metadata=fields(name=a_text(5), generateName=a_text(900))), "")
    for schema, name, most in ((root, "name", 105), (short, "name", 5), (short, "generateName", 104)):
        compiler = RuleCompiler(schema, SchemaTypes(), SchemaLengths().of(schema))
        assert compiler.rule({"rule": f"self.metadata.{name}.contains('x')"}).expression.worst_cost == most


INNERMOST = a_text()
REPEATED: dict[str, tuple[Written, int | None]] = {
    "an object": (fields(x=INNERMOST), 1),
    "a list": (a_list(INNERMOST, 5), 5),
    "a list without a limit": (a_list(INNERMOST), None),
    "a map": (a_map(INNERMOST, 10), 10),
    "a map without a limit": (a_map(INNERMOST), None),
    "a list in a map": (a_map(a_list(INNERMOST, 5), 5), 25),
    "a list without a limit in a map": (a_map(a_list(INNERMOST), 5), None),
    "a map in an object in a list": (a_list(fields(x=a_map(INNERMOST, 4)), 2), 8),
    "more than 64 bits can count": (a_list(a_list(INNERMOST, 100), 2**63 - 1), LIMITLESS),
}


@pytest.mark.parametrize(("written", "times"), REPEATED.values(), ids=REPEATED)
def test_a_rule_counts_as_often_as_an_object_can_have_its_value(written: Written, times: int | None) -> None:
    *_, (_, found) = repetitions_of(read(written))
    assert found == times


SUMS: dict[str, tuple[list[int], list[int], int]] = {
    "no rule": ([], [], 0),
    "one that counts": ([1_000_000], [1_000_000], 1_000_000),
    "one below a hundredth of the limit": ([900_000], [], 900_000),
    "the most expensive first": ([5_000_000, 25_000_000, 900_000], [25_000_000, 5_000_000], 30_900_000),
    "four at most": (
        [16_000_000, 50_000_000, 900_000, 34_000_000, 50_000_000, 50_000_001],
        [50_000_001, 50_000_000, 50_000_000, 34_000_000],
        200_900_001,
    ),
    "more than 64 bits can count": (
        [LIMITLESS // 2, LIMITLESS // 2, 10, 100],
        [LIMITLESS // 2, LIMITLESS // 2],
        LIMITLESS,
    ),
}


@pytest.mark.parametrize(("costs", "expensive", "total"), SUMS.values(), ids=SUMS)
def test_the_most_expensive_rules_of_a_definition_are_named(costs: list[int], expensive: list[int], total: int) -> None:
    summed = TotalCost()
    for each in costs:
        summed.add(each, "spec", "rule")
    assert [each for each, _ in summed.expensive] == expensive
    assert summed.total == total


# ---- what users see

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
RULE = "schema.properties[spec].x-kubernetes-validations[0]"
SHARE = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
TOTAL = (
    "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
    "exceeds budget by factor of"
)


def said(spec: Written) -> list[str]:
    """The faults of a definition with this spec, as a client gets them."""
    schema, faults = read_schema(fields(spec=spec), "schema")
    assert not faults
    return [f"{fault.field}: {fault.message}" for fault in rule_faults(schema, "schema")]


def ruled(written: Written, rule: str, **more: str) -> Written:
    return written | {"x-kubernetes-validations": [{"rule": rule, **more}]}


def test_a_rule_that_may_cost_too_much_is_refused_with_the_factor() -> None:
    """53,477,367 is upstream's number for this rule, and its limit 10,000,000."""
    rule = "self.array.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)"
    told = f"{RULE}.rule: Forbidden: estimated rule cost exceeds budget by factor of"
    assert said(ruled(fields(array=a_list(of_type("integer"))), rule)) == [f"{told} 5.3x {ADVICE}"]
    assert said(ruled(fields(array=a_list(of_type("integer"), 100)), rule)) == []
    rule = "self.all(x, size(self) > 0)"  # 2, and 6 for each number
    assert said(ruled(a_list(of_type("integer"), 1_700_000), rule)) == [f"{told} 1.020000x {ADVICE}"]
    assert said(ruled(a_list(of_type("integer"), 1_600_000), rule)) == []


def test_a_schema_whose_rules_cost_too_much_together_is_refused() -> None:
    """Upstream's issue 124234 has this definition and these three lines: nothing bounds the text of a number."""
    spec = ruled(
        fields(attempts=of_type("integer")), "self.attempts >= 0", messageExpression="'was ' + string(self.attempts)"
    )
    message = f"{RULE}.messageExpression"
    assert said(spec) == [
        f"{message}: Forbidden: estimated messageExpression cost exceeds budget by factor of more than 100x {ADVICE}",
        f"{message}: {SHARE}",
        f"schema: {TOTAL} more than 100x {ADVICE}",
    ]


def test_a_rule_in_a_list_without_a_limit_counts_as_often_as_a_request_can_have_it() -> None:
    """A text takes three bytes in a request with the comma, so that 3 MiB have 1,048,576: twice that is 2,097,152."""
    text = ruled(a_text(), "self == 'x'")
    assert said(a_list(text)) == []
    with_items = said(a_list(ruled(a_text(), "self.contains('test')")))
    path = "schema.properties[spec].items.x-kubernetes-validations[0].rule"
    assert with_items[0].startswith(
        f"{path}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x"
    )
    assert said(a_list(ruled(a_text(10), "self.contains('test')"), 100)) == []
