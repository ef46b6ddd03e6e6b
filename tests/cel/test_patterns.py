"""Patterns as RE2 reads them: syntax inside of a class is none, and flags hold to the end of their group."""

import re

import pytest

from mooring.cel.functions.regex import compiled, matches
from mooring.cel.values import Fault

TEXTS = ("", "a", "b", "B", "aB", "AB", "c", "C", "ab", "xYq", "xq", "Zq", "zQ", "a\tb", "]", "x]")


@pytest.mark.parametrize(
    ("pattern", "as_python"),
    [
        ("^(?i)[a-z]b?$", "(?i:^[a-z]b?$)"),
        ("a(?i)b|c", "a(?i:b)|(?i:c)"),
        ("(x(?i)y|z)q", "(x(?i:y)|(?i:z))q"),
        (r"^[!-~]+([\t ]?[!-~]+)*$", r"^[!-~]+([\t ]?[!-~]+)*\Z"),
        (r"^[]x]+$", r"^[]x]+\Z"),
        (r"\[?a", r"\[?a"),
    ],
)
def test_a_pattern_finds_what_the_same_one_in_python_finds(pattern: str, as_python: str) -> None:
    for text in TEXTS:
        assert matches(text, pattern) is (re.search(as_python, text) is not None), text


@pytest.mark.parametrize("pattern", [r"(a)\1", "a++", "(?=a)", r"\[a(?=b)", "[a]?+", "(?P=x)"])
def test_what_only_perl_has_is_refused(pattern: str) -> None:
    found = compiled(pattern)
    assert isinstance(found, Fault) and "invalid or unsupported Perl syntax" in found.text
