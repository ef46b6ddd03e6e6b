"""Selectors as they are written in URLs, `a=b,c in (x,y),!d` for labels and `spec.nodeName=n1` for fields, and in
objects.

All become values that say whether an object matches. A text that cannot be read is refused with 400 and
kube-apiserver's text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mooring.api.api_errors import ApiError, bad_request
from mooring.api.json_objects import JsonObject, metadata_of
from mooring.api.kind_spec import OF_METADATA, FieldLabels, FieldReader
from mooring.kit.shown_text import quoted
from mooring.model.meta import LabelSelector
from mooring.model.names import label_value_faults, qualified_name_faults
from mooring.model.selectors import NOTHING, LabelRule, Selector, SelectorError, compile_selector, parse_int64


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """The two selectors of a request; an object must match both."""

    labels: Selector
    fields: "Sequence[FieldTerm]"

    @property
    def is_empty(self) -> bool:
        return self.labels.is_empty and not self.fields

    def matches(self, item: JsonObject) -> bool:
        has_fields = all(term.admits(item) for term in self.fields)
        return has_fields and (self.labels.is_empty or self.labels.matches(labels_of(item)))


def parse_selectors(labels: str, fields: str, known: FieldLabels) -> ObjectSelector:
    """The selectors of a list, a watch or a deletion of objects that have the known field labels. Raises ApiError 400."""
    return ObjectSelector(parse_label_selector(labels), parse_field_selector(fields, known))


# ---- labels


class _Token(NamedTuple):
    """`kind` is the text itself for signs and for `in` and `notin`, `name` for other words, `end` at the end."""

    kind: str
    text: str


_END = _Token("end", "")
_SIGNS = ("==", "!=", "=", "!", "(", ")", ",", ">", "<")
"""The longer ones first, because the first that fits is taken."""
_WORDS = re.compile(r"[ \t\r\n]*(?:([=!(),><]+)|([^=!(),>< \t\r\n]+))")
_SET_SIGNS = {"in": "In", "notin": "NotIn"}
_VALUE_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_OPERATORS = "in, notin, =, ==, !=, gt, lt"
"""Parity: how upstream lists them in its refusal."""


def parse_label_selector(text: str) -> Selector:
    """A label selector; no text matches everything. Raises ApiError 400."""
    return Selector(tuple(_LabelParser(_tokens(text)).rules()))


def labels_of(item: JsonObject) -> dict[str, str]:
    """The labels of an object; none if they are not of the right form."""
    labels = metadata_of(item).get("labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}


def _tokens(text: str) -> list[_Token]:
    """Words and signs, and the end."""
    tokens = []
    for signs, word in _WORDS.findall(text):
        tokens += _split(signs)
        if word:
            tokens.append(_Token(word if word in _SET_SIGNS else "name", word))
    return [*tokens, _END]


def _split(signs: str) -> list[_Token]:
    """Signs that stand together, the longest first: `===` is `==` and `=`."""
    found = []
    while signs:
        sign = next(sign for sign in _SIGNS if signs.startswith(sign))
        found.append(_Token(sign, sign))
        signs = signs[len(sign) :]
    return found


class _LabelParser:
    """Reads requirements from a list of tokens, with upstream's errors. `in` and `notin` are words like others where no
    operator can stand."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def rules(self) -> list[LabelRule]:
        """All requirements. Raises ApiError 400."""
        rules: list[LabelRule] = []
        while self._peek().kind != "end":
            if self._peek().kind not in ("name", "!"):
                raise self._unexpected(self._peek(), "!, identifier, or 'end of string'")
            rules.append(self._requirement())
            after = self._take()
            if after.kind == "end":
                break
            if after.kind != ",":
                raise self._unexpected(after, "',' or 'end of string'")
            if self._peek().kind not in ("name", "!"):
                raise self._unexpected(self._peek(), "identifier after ','")
        return rules

    def _requirement(self) -> LabelRule:
        """One requirement; its errors say that they are about one."""
        try:
            return self._rule()
        except ApiError as fault:
            raise bad_request(f"unable to parse requirement: {fault.message}") from None

    def _rule(self) -> LabelRule:
        """A key, then an operator and what it needs, or nothing: the key must be there."""
        absent = self._peek().kind == "!"
        key = self._take_key(absent)
        if absent or self._peek().kind in ("end", ","):
            return LabelRule(key, "DoesNotExist" if absent else "Exists")
        sign = self._take(as_name=False)
        if sign.kind in _SET_SIGNS:
            return _checked_rule(key, _SET_SIGNS[sign.kind], self._values())
        if sign.kind in _VALUE_SIGNS:
            return _checked_rule(key, _VALUE_SIGNS[sign.kind], [self._value()])
        raise self._unexpected(sign, _OPERATORS)

    def _take_key(self, absent: bool) -> str:
        """A key, behind a `!` if `absent`. It must be a qualified name."""
        if absent:
            self._take()
        token = self._take()
        if token.kind != "name":
            raise self._unexpected(token, "identifier")
        if faults := qualified_name_faults(token.text):
            raise bad_request(f"<nil>: Invalid value: {quoted(token.text)}: {'; '.join(faults)}")
        return token.text

    def _value(self, ends: tuple[str, str] = ("end", ","), expected: str = "identifier") -> str:
        """The next value; what ends it may come at once, and then it is empty."""
        if self._peek().kind in ends:
            return ""
        token = self._take()
        if token.kind != "name":
            raise self._unexpected(token, expected)
        return token.text

    def _values(self) -> list[str]:
        """Values in brackets; nothing between commas is the empty value."""
        opening = self._take()
        if opening.kind != "(":
            raise bad_request(f"found '{opening.text}' expected: '('")
        if self._peek().kind not in ("name", ",", ")"):
            raise self._unexpected(self._peek(), "',', ')' or identifier")
        values = [self._listed_value()]
        while (token := self._take()).kind == ",":
            values.append(self._listed_value())
        if token.kind != ")":
            raise self._unexpected(token, "',' or ')'")
        return sorted(set(values))

    def _listed_value(self) -> str:
        """One value between the commas of a list."""
        return self._value((",", ")"), "',', or identifier")

    def _peek(self) -> _Token:
        """The next token; `in` and `notin` are words here."""
        token = self._tokens[min(self._next, len(self._tokens) - 1)]
        return _Token("name", token.text) if token.kind in _SET_SIGNS else token

    def _take(self, as_name: bool = True) -> _Token:
        """The next token, and go on behind it."""
        token = self._peek() if as_name else self._tokens[min(self._next, len(self._tokens) - 1)]
        self._next += 1
        return token

    def _unexpected(self, token: _Token, expected: str) -> ApiError:
        return bad_request(f"found '{token.text}', expected: {expected}")


def _checked_rule(key: str, operator: str, values: list[str]) -> LabelRule:
    """The rule, if its values may be values of labels, and numbers where the operator compares numbers. Raises ApiError
    400."""
    faults = []
    bound = 0
    for i, value in enumerate(values):
        if operator in ("Gt", "Lt"):
            number = parse_int64(value)
            bound = number or 0
            if number is None:
                faults.append(
                    f"values[{i}]: Invalid value: {quoted(value)}: for 'Gt', 'Lt' operators, the value must be an integer"
                )
        if wrong := label_value_faults(value):
            faults.append(f"values[{i}][{key}]: Invalid value: {quoted(value)}: {'; '.join(wrong)}")
    if faults:
        raise bad_request(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return LabelRule(key, operator, frozenset(values), bound)


# ---- fields

_TERMS = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
"""The texts between commas, but for those behind a backslash."""


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One requirement on one field."""

    value: str
    negated: bool
    read: FieldReader

    def admits(self, item: JsonObject) -> bool:
        return (self.read(item) == self.value) != self.negated


def parse_field_selector(text: str, labels: FieldLabels) -> list[FieldTerm]:
    """The terms of a selector by these labels, which must all hold. Raises ApiError 400."""
    terms = [_split_term(part, text) for part in sorted(_TERMS.findall(text))]
    return [_field_term(*term, labels) for term in terms]


def _split_term(part: str, whole: str) -> tuple[str, str, str]:
    """Label, operator and value of one term."""
    found = re.search("!=|==|=", part)
    if found is None:
        raise bad_request(f"invalid selector: '{whole}'; can't understand '{part}'")
    return part[: found.start()], found.group(), _unescaped(part[found.end() :])


def _field_term(label: str, operator: str, value: str, labels: FieldLabels) -> FieldTerm:
    """One term, if the kind can be selected by that field. Raises ApiError 400."""
    if label not in labels:
        if labels is OF_METADATA:
            known = '"metadata.name", "metadata.namespace"'
            raise bad_request(f"{quoted(label)} is not a known field selector: only {known}")
        raise bad_request(f"field label not supported: {label}")
    return FieldTerm(value, operator == "!=", labels[label])


def _unescaped(value: str) -> str:
    """The value without its backslashes. Raises ApiError 400 for an escape that there is not, and for a sign without
    one."""
    result = []
    rest = iter(value)
    for character in rest:
        if character == "\\":
            character = next(rest, "")
            if not character or character not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{character}")
        elif character in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(character)}")
        result.append(character)
    return "".join(result)


# ---- selectors in objects


def selector_from(written: JsonObject | None) -> Selector:
    """None, and what cannot be compiled, select nothing; an empty selector selects everything."""
    if written is None:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(written, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return NOTHING
