"""The parser: from text to a tree, by recursive descent, with macros expanded.

Messages and limits are those of cel-go's parser, which is generated (ANTLR); users search for its texts.
"""

from mooring.cel.language.macros import expand
from mooring.cel.language.syntax import (
    MAX_DEPTH,
    RESERVED,
    CallExpression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxFault,
    SyntaxNode,
    Token,
    tokens_of,
)
from mooring.cel.values import MAX_INT64

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "in")
_LEVELS: tuple[tuple[str, ...], ...] = (_RELATIONS, ("+", "-"), ("*", "/", "%"))
"""Operators with two operands, from the weakest binding to the strongest; operators of a level associate to the left."""

_FIRST = (
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
)
"""Tokens that an expression may begin with, in the words of cel-go's message."""


def parse(source: str) -> SyntaxNode:
    """The tree of an expression. Raises SyntaxFault."""
    return _Parser(source).whole()


class _Parser:
    """One pass over the tokens; each method parses one rule of the grammar."""

    def __init__(self, source: str) -> None:
        self._tokens = tokens_of(source)
        self._next = 0
        self._depth = 0

    def whole(self) -> SyntaxNode:
        """The expression, which must end where the text ends."""
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected()
        return node

    # ---- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _takes(self, sign: str) -> bool:
        """Consumes the next token if it is this sign."""
        if self._token.kind == "sign" and self._token.text == sign:
            self._next += 1
            return True
        return False

    def _expect(self, sign: str, expected: str = "") -> None:
        if not self._takes(sign):
            raise self._unexpected(f" expecting {expected or repr(sign)}")

    def _unexpected(self, more: str = "") -> SyntaxFault:
        return SyntaxFault(f"Syntax error: mismatched input '{self._token.text}'{more}", self._token.position)

    def _deeper(self) -> None:
        """Count a level of nesting. Python's own recursion must not be what stops a hostile expression."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SyntaxFault(f"expression recursion limit exceeded: {MAX_DEPTH}", self._token.position)

    # ---- operators

    def _expression(self) -> SyntaxNode:
        """`condition ? then : otherwise`, where `otherwise` is an expression again."""
        self._deeper()
        node = self._logical("||", "_||_")
        at = self._token.position
        if self._takes("?"):
            then = self._logical("||", "_||_")
            self._expect(":")
            node = CallExpression(at, "_?_:_", None, (node, then, self._expression()))
        self._depth -= 1
        return node

    def _logical(self, sign: str, function: str) -> SyntaxNode:
        """`a && b && c` is one call with three terms, so that a thousand terms do not nest a thousand deep."""
        at = self._token.position
        terms = [self._conjunction() if sign == "||" else self._binary(0)]
        while self._token.text == sign and self._token.kind == "sign":
            at = self._take().position
            terms.append(self._conjunction() if sign == "||" else self._binary(0))
        return terms[0] if len(terms) == 1 else CallExpression(at, function, None, terms)

    def _conjunction(self) -> SyntaxNode:
        return self._logical("&&", "_&&_")

    def _binary(self, level: int) -> SyntaxNode:
        """Operators of one level, from left to right. Each counts as a level of nesting, because the tree nests to the
        left."""
        if level == len(_LEVELS):
            return self._unary()
        node, deeper = self._binary(level + 1), 0
        while self._token.kind == "sign" and self._token.text in _LEVELS[level]:
            operator = self._take()
            self._deeper()
            deeper += 1
            function = "@in" if operator.text == "in" else f"_{operator.text}_"
            node = CallExpression(operator.position, function, None, (node, self._binary(level + 1)))
        self._depth -= deeper
        return node

    def _unary(self) -> SyntaxNode:
        """Parity: an even number of signs cancels out (`!!x` is x), and `-1` is a literal."""
        first = self._token
        for sign, function in (("!", "!_"), ("-", "-_")):
            count = 0
            while self._takes(sign):
                count += 1
            if count:
                is_odd = count % 2 == 1
                token = self._token
                if sign == "-" and is_odd and token.kind == "literal" and token.value.__class__ in (int, float):
                    self._take()
                    return self._members(Literal(token.position, -token.value))
                node = self._members(self._primary())
                return CallExpression(first.position, function, None, (node,)) if is_odd else node
        return self._members(self._primary())

    # ---- operands

    def _members(self, node: SyntaxNode) -> SyntaxNode:
        """The operand with the fields, calls and indexes that follow it."""
        deeper = 0
        while self._token.kind == "sign" and self._token.text in (".", "["):
            self._deeper()
            deeper += 1
            token = self._take()
            node = self._index(node, token.position) if token.text == "[" else self._member(node, token.position)
        self._depth -= deeper
        return node

    def _index(self, node: SyntaxNode, at: int) -> SyntaxNode:
        function = "_[?_]" if self._takes("?") else "_[_]"
        key = self._expression()
        self._expect("]")
        return CallExpression(at, function, None, (node, key))

    def _member(self, node: SyntaxNode, at: int) -> SyntaxNode:
        """`.name`, `.?name` or `.name(arguments)`, with macros expanded."""
        is_optional = self._takes("?")
        name = self._identifier()
        if is_optional:
            return CallExpression(at, "_?._", None, (node, Literal(at, name)))
        at_call = self._token.position
        if self._takes("("):
            return expand(CallExpression(at_call, name, node, self._arguments(")")))
        return Select(at, node, name)

    def _identifier(self) -> str:
        token = self._take()
        if token.kind != "name":
            self._next -= 1
            raise SyntaxFault("Syntax error: no viable alternative at input '.'", self._token.position)
        return token.text

    def _primary(self) -> SyntaxNode:
        """A literal, a name, a group, a list or a map."""
        token = self._take()
        if token.kind == "literal":
            if token.value.__class__ is int and token.value > MAX_INT64:
                raise SyntaxFault("Syntax error: invalid int literal", token.position)
            return Literal(token.position, token.value)
        if token.kind == "name":
            return self._named(token)
        if token.kind == "sign":
            if token.text == "(":
                return self._grouped()
            if token.text == "[":
                return self._list(token.position)
            if token.text == "{":
                return self._map(token.position)
            if token.text == "." and self._token.kind == "name":
                return self._named(self._take())
        self._next -= 1
        raise self._unexpected(f" expecting {{{_FIRST}}}")

    def _grouped(self) -> SyntaxNode:
        node = self._expression()
        if not self._takes(")"):
            raise SyntaxFault(f"Syntax error: missing ')' at '{self._token.text}'", self._token.position)
        return node

    def _named(self, token: Token) -> SyntaxNode:
        """A name or a call of a function without a receiver."""
        if token.text in RESERVED:
            raise SyntaxFault(f"reserved identifier: {token.text}", token.position)
        at_call = self._token.position
        if self._takes("("):
            return expand(CallExpression(at_call, token.text, None, self._arguments(")")))
        if self._token.text == "{" and self._token.kind == "sign":  # an object literal: selectors declare no such types
            raise SyntaxFault(f"undeclared reference to '{token.text}' (in container '')", self._token.position)
        return Ident(token.position, token.text)

    def _arguments(self, end: str) -> list[SyntaxNode]:
        args: list[SyntaxNode] = []
        if self._takes(end):
            return args
        args.append(self._expression())
        while self._takes(","):
            args.append(self._expression())
        self._expect(end)
        return args

    def _list(self, at: int) -> SyntaxNode:
        """A list literal; a comma may follow the last element."""
        elements: list[SyntaxNode] = []
        optional = set()
        while not self._takes("]"):
            if self._takes("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._takes(","):
                self._expect("]", "{']', ','}")
                break
        return ListLiteral(at, elements, frozenset(optional))

    def _map(self, at: int) -> SyntaxNode:
        """A map literal; a comma may follow the last entry."""
        entries: list[tuple[SyntaxNode, SyntaxNode, bool]] = []
        while not self._takes("}"):
            is_optional = self._takes("?")
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), is_optional))
            if not self._takes(","):
                self._expect("}")
                break
        return MapLiteral(at, entries)
