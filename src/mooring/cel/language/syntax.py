"""Syntax of CEL: the nodes of the tree, tokens, and the error of an expression that does not compile."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mooring.cel.values import DYN, MAX_INT64, MAX_UINT64, Type, Uint

if TYPE_CHECKING:
    from mooring.cel.library import Overload

MAX_DEPTH = 250
"""How deep an expression may nest: cel-go's default limit of recursion."""


class SyntaxFault(Exception):
    """The expression does not compile; `position` is the index of the character."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position

    def told(self, source: str) -> str:
        """The message of cel-go: the place, the line, and a mark below it.

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
    """A node of the tree. The checker sets its type."""

    position: int
    type: Type = field(default=DYN, init=False)
    is_checked: bool = field(default=False, init=False)
    """A macro may use an argument twice; the checker visits it once."""


@dataclass(slots=True, eq=False)
class Literal(SyntaxNode):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(SyntaxNode):
    name: str


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    """A field of a value, or the test for it."""

    operand: SyntaxNode
    name: str
    is_test: bool = False
    """`has(operand.name)`."""
    qualified: str | None = None
    """The name of a type, if `a.b` is one (`net.IP`): the checker finds out."""


@dataclass(slots=True, eq=False)
class CallExpression(SyntaxNode):
    """A call of a function. Operators are calls too, under cel-go's names: `a + b` is `_+_(a, b)`."""

    function: str
    target: SyntaxNode | None
    args: Sequence[SyntaxNode]
    overloads: Sequence["Overload"] = ()
    """The overloads that the types of the arguments allow: the checker sets them."""

    def operands(self) -> list[SyntaxNode]:
        return [*self.args] if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(SyntaxNode):
    """`[a, ?b]`."""

    elements: Sequence[SyntaxNode]
    optional: frozenset[int] = frozenset()
    """The indexes of optional elements (`[?a]`)."""


@dataclass(slots=True, eq=False)
class MapLiteral(SyntaxNode):
    """`{a: b, ?c: d}`."""

    entries: Sequence[tuple[SyntaxNode, SyntaxNode, bool]]
    """Key, value, and whether the entry is optional."""


@dataclass(slots=True, eq=False)
class Fold(SyntaxNode):
    """A comprehension, which macros expand to: `accu` starts as `init` and becomes `step` for each element of `range` while
    `condition` holds; the value is `result`. `var2` is empty for macros with one variable."""

    range: SyntaxNode
    var: str
    var2: str
    accu: str
    init: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode


T = TypeVar("T")


class TreeWalk(ABC, Generic[T]):
    """A walk over a tree that has a value for each node: its type, its plan, its cost. There is a method for each kind."""

    def of(self, node: SyntaxNode) -> T:
        """The value of a node by its kind."""
        match node:
            case Literal():
                return self._literal(node)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case CallExpression():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Fold():
                return self._fold(node)
        raise AssertionError(node)

    @abstractmethod
    def _literal(self, node: Literal) -> T: ...
    @abstractmethod
    def _ident(self, node: Ident) -> T: ...
    @abstractmethod
    def _select(self, node: Select) -> T: ...
    @abstractmethod
    def _call(self, node: CallExpression) -> T: ...
    @abstractmethod
    def _list(self, node: ListLiteral) -> T: ...
    @abstractmethod
    def _map(self, node: MapLiteral) -> T: ...
    @abstractmethod
    def _fold(self, node: Fold) -> T: ...


# ---- tokens


KEYWORDS = {"true": True, "false": False, "null": None}
"""Names that are literals."""
RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    )
)

_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<string>[bB]?[rR]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
       |[rR][bB](?:"[^"\r\n]*"|'[^'\r\n]*'))
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0x[0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!?:.,()\[\]{}<>])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAX_DIGITS = 1000
"""The longest number: Python raises for more than 4,300 digits, and 64 bits have 20."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it starts; `value` is that of a literal."""

    kind: str
    """name, literal, sign, or end."""
    text: str
    position: int
    value: Any = None


def tokens_of(source: str) -> list[Token]:
    """All tokens, with an end token. Raises SyntaxFault."""
    return [*_tokens(source), Token("end", "<EOF>", len(source))]


def _tokens(source: str) -> Iterator[Token]:
    """Tokens without spaces and comments. Raises SyntaxFault at a character that starts none."""
    position = 0
    while position < len(source):
        found = _PATTERN.match(source, position)
        if found is None:
            raise SyntaxFault(f"Syntax error: token recognition error at: '{source[position]}'", position)
        kind, text = found.lastgroup or "", found.group()
        if kind == "name":
            yield _named(text, position)
        elif kind == "sign":
            yield Token("sign", text, position)
        elif kind != "space":
            yield Token("literal", text, position, _literal(kind, text, position))
        position = found.end()


def _named(text: str, position: int) -> Token:
    if text in KEYWORDS:
        return Token("literal", text, position, KEYWORDS[text])
    return Token("name" if text != "in" else "sign", text, position)


def _literal(kind: str, text: str, position: int) -> Any:
    """The value of a number or a string. Integers must fit into 64 bits."""
    if kind == "string":
        return _text_of(text, position)
    if kind == "double":
        return float(text)
    is_unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    if len(digits) > MAX_DIGITS:
        raise SyntaxFault(f"Syntax error: invalid {'uint' if is_unsigned else 'int'} literal", position)
    value = int(digits, 16) if digits.startswith("0x") else int(digits)
    if is_unsigned:
        if value > MAX_UINT64:
            raise SyntaxFault("Syntax error: invalid uint literal", position)
        return Uint(value)
    if (
        value > MAX_INT64 + 1
    ):  # one more than the maximum is the minimum, if a minus is before it; the parser checks that
        raise SyntaxFault("Syntax error: invalid int literal", position)
    return value


def _text_of(text: str, position: int) -> str | bytes:
    """A string or bytes literal: the prefixes b and r, one or three quotes."""
    prefix = re.match("[bBrR]*", text)
    marks = prefix.group().lower() if prefix is not None else ""
    body = text[len(marks) :]
    quote = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    inner = body[quote:-quote]
    is_bytes = "b" in marks
    if "r" not in marks:
        return _unescaped(inner, is_bytes, position)
    return inner.encode() if is_bytes else inner


def _unescaped(text: str, is_bytes: bool, position: int) -> str | bytes:
    """Works on bytes, because an escape in a bytes literal may be a part of a character."""
    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(text):
        parts.append(text[end : found.start()].encode("utf-8", "surrogatepass"))
        parts.append(_escape(found, is_bytes, position))
        end = found.end()
    parts.append(text[end:].encode("utf-8", "surrogatepass"))
    whole = b"".join(parts)
    return whole if is_bytes else whole.decode("utf-8", "replace")


def _escape(found: re.Match[str], is_bytes: bool, position: int) -> bytes:
    """An escape such as `\\n`, `\\x41`, `\\u0041` or `\\101`. In bytes a number is a byte, in text a code point."""
    letter = found[6]
    if letter is not None:
        if letter in _LETTERS:
            return _LETTERS[letter].encode()
        if letter in "\\'\"`?":
            return letter.encode()
        raise SyntaxFault(f"Syntax error: token recognition error at: '{found.group()}'", position)
    octal = found[5]
    code = int(octal, 8) if octal is not None else int(found[1] or found[2] or found[3] or found[4], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000 or (is_bytes and (found[3] or found[4])):
        raise SyntaxFault("invalid unicode code point", position)
    return bytes([code]) if is_bytes else chr(code).encode()
