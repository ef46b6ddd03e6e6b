"""Regular expressions as RE2 has them, without backtracking: the time grows with the product of text and pattern only.

Python's `re` backtracks, so that a short pattern of a user could stop the scheduler. Here the pattern becomes a program (a
Thompson NFA), and a search reads the text once, with all places of the program that can be reached, in the order in which
RE2 prefers them. Python's parser reads the pattern, because RE2's syntax is nearly a subset of Python's.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from mooring.cel.budget import WORK
from mooring.cel.values import Fault

MAX_PROGRAM = 20_000
"""The most instructions of a program: nested counted repetitions multiply (`(a{100}){100}`)."""
MAX_REPEAT = 1000
"""RE2's limit of a counted repetition."""

Letter = Callable[[str], bool]


class PatternFault(Exception):
    """A pattern that RE2 does not accept; the text is Go's as far as possible."""


@dataclass(slots=True)
class RegexProgram:
    """A compiled pattern. A place is the number of an instruction; each has exactly one of three kinds."""

    letters: dict[int, Letter] = field(default_factory=dict)
    """Take a letter that the predicate accepts, and go to the next place."""
    jumps: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Go to one of these places, preferably the first."""
    conditions: dict[int, Callable[[str, int], bool]] = field(default_factory=dict)
    """Go to the next place if the condition on the position holds (`^`, `$`, `\\b`)."""
    length: int = 0

    start = 0

    @property
    def end(self) -> int:
        """The place behind the last instruction: the pattern has matched."""
        return self.length

    def takes(self, place: int, letter: str) -> bool:
        return self.letters[place](letter)

    def closed(self, threads: Iterable[tuple[int, int]], text: str, at: int) -> list[tuple[int, int]]:
        """All places that the threads reach without taking a letter, in the order of preference, each once. A thread is
        (place, where its match began)."""
        reached: list[tuple[int, int]] = []
        seen: set[int] = set()
        for place, begin in threads:
            stack = [place]
            while stack:
                now = stack.pop()
                if now in seen:
                    continue
                seen.add(now)
                if now in self.jumps:
                    stack.extend(reversed(self.jumps[now]))
                elif now in self.conditions:
                    if self.conditions[now](text, at):
                        stack.append(now + 1)
                else:
                    reached.append((now, begin))
        WORK.spend(len(seen))
        return reached

    def add(self) -> int:
        """The place of a new instruction, which the caller fills in."""
        place = self.length
        self.length += 1
        if self.length > MAX_PROGRAM:
            raise PatternFault("expression nests too deeply or is too large")
        return place


# ---- searching


@lru_cache(maxsize=512)
def compiled(pattern: str) -> RegexProgram | Fault:
    """The program of a pattern. Cached: a selector runs for each device, mostly with a constant pattern."""
    try:
        return compile_pattern(pattern)
    except PatternFault as fault:
        return Fault(f"error parsing regexp: {fault}")


def matches(text: str, pattern: str) -> bool | Fault:
    """Whether the pattern is found anywhere in the text. Raises Exceeded."""
    program = compiled(pattern)
    return program if isinstance(program, Fault) else _search(program, text, 0) is not None


def find(text: str, pattern: str) -> str | Fault:
    """The leftmost match, or an empty text. Raises Exceeded."""
    program = compiled(pattern)
    if isinstance(program, Fault):
        return Fault(f"Illegal regex: {program.text}")
    found = _search(program, text, 0)
    return text[slice(*found)] if found is not None else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str] | Fault:
    """All matches, at most `limit` if that is not negative. Raises Exceeded."""
    program = compiled(pattern)
    if isinstance(program, Fault):
        return Fault(f"Illegal regex: {program.text}")
    return [text[start:end] for start, end in _all(program, text, limit)]


def _all(program: RegexProgram, text: str, limit: int) -> list[tuple[int, int]]:
    """Matches that do not overlap. Parity: an empty match directly after another match does not count, as in Go."""
    found: list[tuple[int, int]] = []
    at, before = 0, -1
    while at <= len(text) and len(found) != limit:
        match = _search(program, text, at)
        if match is None:
            break
        start, end = match
        if end > start or start != before:
            found.append(match)
        before = end
        at = end if end > start else end + 1
    return found


def _search(program: RegexProgram, text: str, start: int) -> tuple[int, int] | None:
    """Start and end of the leftmost match; of several that start there, the one that RE2 prefers."""
    threads: list[tuple[int, int]] = []
    best: tuple[int, int] | None = None
    for at in range(start, len(text) + 1):
        if best is None:  # once there is a match, a later start cannot be leftmost
            threads.append((program.start, at))
        reached = program.closed(threads, text, at)
        WORK.spend(len(reached) + 1)
        threads = []
        for place, begin in reached:
            if place == program.end:
                best = (begin, at)
                break  # threads that follow are preferred less
            if at < len(text) and program.takes(place, text[at]):
                threads.append((place + 1, begin))
        if not threads and best is not None:
            break
    return best


# ---- from a pattern to a program

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
"""Classes of `[[:alpha:]]`, which Python does not have."""
_PERL_ONLY = re.compile(r"\(\?(?:[=!>(]|<[=!])|\(\?P[=>]|\\[1-9]|[*+?}]\+")


def compile_pattern(pattern: str) -> RegexProgram:
    """The program of a pattern. Raises PatternFault.

    What Python accepts and RE2 does not (look-around, back references, possessive quantifiers) is rejected first.
    """
    if _PERL_ONLY.search(_TOKEN.sub(_without_text, pattern)):
        raise PatternFault(f"invalid or unsupported Perl syntax: `{pattern}`")
    try:
        tree = parser.parse(_as_python(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as fault:
        raise PatternFault(f"{_told(str(fault))}: `{pattern}`") from None
    program = RegexProgram()
    _sequence(program, tree, tree.state.flags)
    return program


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
"""An escaped letter, or a class of letters: what looks like syntax in them is none."""


def _without_text(token: re.Match[str]) -> str:
    """A letter instead of a class or an escaped letter; a back reference stays."""
    return token.group() if re.fullmatch(r"\\[1-9]", token.group()) else "x"


def _told(fault: str) -> str:
    """The most common errors in Go's words."""
    if fault.startswith("missing )"):
        return "missing closing )"
    if fault.startswith("unbalanced parenthesis"):
        return "unexpected )"
    if fault.startswith("unterminated character set"):
        return "missing closing ]"
    return "missing argument to repetition operator" if fault.startswith("nothing to repeat") else fault


def _as_python(pattern: str) -> str:
    """The pattern in Python's notation, where RE2's differs: `[[:alpha:]]`, `\\z`, `\\Q...\\E`, and flags."""
    pattern = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda found: re.escape(found[1]), pattern, flags=re.DOTALL)
    pattern = re.sub(r"\[:(\^?)(\w+):\]", _posix_class, pattern)
    pattern = pattern.replace("(?<", "(?P<") if "(?P<" not in pattern else pattern
    return re.sub(r"\\z", r"\\Z", _with_scoped_flags(pattern) if "(?" in pattern else pattern)


def _with_scoped_flags(pattern: str) -> str:
    """Flags hold up to the end of their group, wherever they stand; Python takes them at the start only: `a(?i)b` becomes
    `a(?i:b)`."""
    made: list[str] = []
    open_flags: list[list[str]] = [[]]
    place = 0
    while place < len(pattern):
        token, flags = _TOKEN.match(pattern, place), _FLAGS.match(pattern, place)
        text = (token or flags or pattern[place : place + 1])[0]
        place += len(text)
        if flags is not None:
            text = f"(?{flags[1]}:"
            open_flags[-1].append(text)
        elif text == "(":
            open_flags.append([])
        elif text == ")" and len(open_flags) > 1:
            text = ")" * len(open_flags.pop()) + text
        elif text == "|":
            text = ")" * len(open_flags[-1]) + text + "".join(open_flags[-1])
        made.append(text)
    return "".join(made) + ")" * len(open_flags[0])


_FLAGS = re.compile(r"\(\?([ims]+)\)")


def _posix_class(found: re.Match[str]) -> str:
    if found[2] not in _POSIX or found[1]:
        raise PatternFault(f"invalid character class range: `{found.group()}`")
    return _POSIX[found[2]]


def _sequence(program: RegexProgram, items: Any, flags: int) -> None:
    for op, value in items:
        _item(program, op, value, flags)


def _item(program: RegexProgram, op: Any, value: Any, flags: int) -> None:
    """Adds the instructions of one item of Python's parse tree."""
    if op is ops.LITERAL or op is ops.NOT_LITERAL:
        program.letters[program.add()] = _literal(chr(value), op is ops.NOT_LITERAL, flags)
    elif op is ops.ANY:
        program.letters[program.add()] = (lambda _: True) if flags & re.DOTALL else (lambda letter: letter != "\n")
    elif op is ops.IN:
        program.letters[program.add()] = _class(value, flags)
    elif op is ops.AT:
        program.conditions[program.add()] = _condition(value, flags)
    elif op is ops.SUBPATTERN:
        _, added, removed, inner = value
        _sequence(program, inner, (flags | added) & ~removed)
    elif op is ops.BRANCH:
        _branch(program, value[1], flags)
    elif op is ops.MAX_REPEAT or op is ops.MIN_REPEAT:
        _repeat(program, value, flags, op is ops.MIN_REPEAT)
    else:
        raise PatternFault("invalid or unsupported Perl syntax")


def _branch(program: RegexProgram, branches: Any, flags: int) -> None:
    """`a|b`: before each branch but the last a fork to the next one, behind it a jump to the end."""
    ends = []
    for i, branch in enumerate(branches):
        fork = program.add() if i < len(branches) - 1 else None
        _sequence(program, branch, flags)
        if fork is not None:
            ends.append(program.add())
            program.jumps[fork] = (fork + 1, program.length)
    for end in ends:
        program.jumps[end] = (program.length,)


def _repeat(program: RegexProgram, value: Any, flags: int, is_lazy: bool) -> None:
    """`a{2,4}` becomes `aa` and two optional `a`; `a*` becomes a loop. A lazy repetition prefers to leave."""
    least, most, inner = value
    is_endless = most is ops.MAXREPEAT
    if least > MAX_REPEAT or (not is_endless and most > MAX_REPEAT):
        raise PatternFault("invalid repeat count")
    for _ in range(least):
        _sequence(program, inner, flags)
    if is_endless:
        fork = program.add()
        _sequence(program, inner, flags)
        program.jumps[program.add()] = (fork,)
        _fork(program, fork, program.length, is_lazy)
        return
    forks = []
    for _ in range(most - least):
        forks.append(program.add())
        _sequence(program, inner, flags)
    for fork in forks:
        _fork(program, fork, program.length, is_lazy)


def _fork(program: RegexProgram, fork: int, beyond: int, is_lazy: bool) -> None:
    program.jumps[fork] = (beyond, fork + 1) if is_lazy else (fork + 1, beyond)


def _literal(wanted: str, is_other: bool, flags: int) -> Letter:
    if flags & re.IGNORECASE:
        either = {wanted.lower(), wanted.upper()}
        return lambda letter: (letter in either) is not is_other
    return lambda letter: (letter == wanted) is not is_other


def _class(items: Any, flags: int) -> Letter:
    """A class such as `[a-z\\d]`; a letter is tested against each of its items."""
    is_negated = items[0][0] is ops.NEGATE
    ranges = [_range(op, value) for op, value in items[is_negated:]]
    ignores_case = bool(flags & re.IGNORECASE)

    def takes(letter: str) -> bool:
        letters = (letter.lower(), letter.upper()) if ignores_case else (letter,)
        return any(test(each) for test in ranges for each in letters) is not is_negated

    return takes


_CATEGORIES = {
    "CATEGORY_DIGIT": "[0-9]", "CATEGORY_NOT_DIGIT": "[^0-9]", "CATEGORY_SPACE": "[\\t\\n\\f\\r ]",
    "CATEGORY_NOT_SPACE": "[^\\t\\n\\f\\r ]", "CATEGORY_WORD": "[0-9A-Za-z_]", "CATEGORY_NOT_WORD": "[^0-9A-Za-z_]",
}  # fmt: skip


def _range(op: Any, value: Any) -> Letter:
    """One item of a class. Classes such as \\d are ASCII, as in RE2."""
    if op is ops.LITERAL:
        return lambda letter: ord(letter) == value
    if op is ops.RANGE:
        low, high = value
        return lambda letter: low <= ord(letter) <= high
    if op is ops.CATEGORY:
        known = re.compile(_CATEGORIES[str(value)])
        return lambda letter: known.match(letter) is not None
    raise PatternFault("invalid character class")


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at] == "_" or (text[at].isascii() and text[at].isalnum()))


def _condition(value: Any, flags: int) -> Callable[[str, int], bool]:
    """`^`, `$`, `\\A`, `\\z`, `\\b` and `\\B`. Words are ASCII, as in RE2."""
    name, is_multiline = str(value), bool(flags & re.MULTILINE)
    if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        if is_multiline and name == "AT_BEGINNING":
            return lambda text, at: at == 0 or text[at - 1] == "\n"
        return lambda text, at: at == 0
    if name in ("AT_END", "AT_END_STRING"):
        if is_multiline and name == "AT_END":
            return lambda text, at: at == len(text) or text[at] == "\n"
        return lambda text, at: at == len(text)
    wanted = name == "AT_BOUNDARY"
    return lambda text, at: (_is_word(text, at - 1) is not _is_word(text, at)) is wanted
