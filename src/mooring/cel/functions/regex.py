"""Regular expressions in time that grows with text and pattern only, as RE2 has them: no way back is ever taken.

The pattern becomes a program of few instructions; a text is read once, with all places of the program in hand that
could be reached, in the order in which RE2 prefers them. Sets of places are remembered, so that most letters cost one look.
"""

from functools import lru_cache

from mooring.cel.budget import WORK
from mooring.cel.functions.regex_program import PatternFault, RegexProgram, compile_pattern
from mooring.cel.values import Fault


@lru_cache(maxsize=512)
def compiled(pattern: str) -> RegexProgram | Fault:
    try:
        return compile_pattern(pattern)
    except PatternFault as fault:
        return Fault(f"error parsing regexp: {fault}")


def matches(text: str, pattern: str) -> bool | Fault:
    """Whether the pattern is found anywhere in the text. Raises Exceeded."""
    program = compiled(pattern)
    return program if isinstance(program, Fault) else _search(program, text, 0) is not None


def find(text: str, pattern: str) -> str | Fault:
    """The leftmost match; empty if there is none."""
    program = compiled(pattern)
    if isinstance(program, Fault):
        return Fault(f"Illegal regex: {program.text}")
    found = _search(program, text, 0)
    return text[slice(*found)] if found is not None else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str] | Fault:
    program = compiled(pattern)
    if isinstance(program, Fault):
        return Fault(f"Illegal regex: {program.text}")
    return [text[start:end] for start, end in _all(program, text, limit)]


def _all(program: RegexProgram, text: str, limit: int) -> list[tuple[int, int]]:
    """Matches that do not overlap. Parity: an empty one right behind another does not count."""
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
    """Where the leftmost match begins and ends: of those that begin there the one that RE2 prefers."""
    threads: list[tuple[int, int]] = []
    best: tuple[int, int] | None = None
    for at in range(start, len(text) + 1):
        if best is None:
            threads.append((program.start, at))
        reached = program.closed(threads, text, at)
        WORK.spend(len(reached) + 1)
        threads = []
        for place, begin in reached:
            if place == program.end:
                best = (begin, at)
                break  # what follows is preferred less
            if at < len(text) and program.takes(place, text[at]):
                threads.append((place + 1, begin))
        if not threads and best is not None:
            break
    return best
