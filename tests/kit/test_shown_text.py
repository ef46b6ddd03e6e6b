"""Text of others: what is escaped, and how each form looks."""

import json
import sys
import unicodedata
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.kit.shown_text import is_shown, json_bytes, json_document, shown, shown_json, yaml_document

ANY = st.text(st.characters(exclude_categories=[]))
"""Also controls, private use and halves of surrogate pairs."""
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))
CHARACTERS = json.loads(Path(__file__).with_name("hidden_characters.json").read_text())
"""The dashboard's tests read them too."""
HIDDEN = {code for first, last, _ in CHARACTERS["hidden"] for code in range(int(first, 16), int(last, 16) + 1)}


def test_all_hidden_characters_are_escaped_and_no_others() -> None:
    wrong = []
    for code in range(sys.maxunicode + 1):
        text = shown(f"a{chr(code)}b")
        if code in HIDDEN or unicodedata.category(chr(code)) == "Cn":
            is_right = text.startswith("a\\") and text.endswith("b") and text.isascii() and text.isprintable()
        else:
            is_right = text == f"a{chr(code)}b"
        if not is_right:
            wrong.append(f"{code:04X}")
    assert wrong == []


def test_text_that_people_write_stays() -> None:
    for text in CHARACTERS["shown"]:
        assert shown(text) == text


def test_the_form_is_that_of_go() -> None:
    assert shown("\x1b]0;x\x07\n\t\x7f\x9b\u202e\U000e0041\ud800") == r"\x1b]0;x\a\n\t\x7f\u009b\u202e\U000e0041\ud800"


@given(ANY)
def test_what_is_shown_is_printable_on_one_line(text: str) -> None:
    kinds = {unicodedata.category(letter) for letter in shown(text)}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert is_shown(shown(text)) and shown(shown(text)) == shown(text)
    assert len(shown(text).splitlines()) <= 1


@given(st.dictionaries(ANY, ANY | st.lists(ANY)))
def test_json_keeps_its_meaning_and_hides_nothing(document: dict[str, object]) -> None:
    text = json_document(document)
    whole = json.loads(json.dumps(document))  # two halves beside each other become one character
    assert json.loads(text) == whole
    assert all(is_shown(line) for line in text.split("\n")) and text.encode()


@given(st.dictionaries(WHOLE, WHOLE | st.lists(WHOLE)))
def test_yaml_keeps_its_meaning_and_hides_nothing(document: dict[str, object]) -> None:
    text = yaml_document(document)
    assert yaml.safe_load(text) == document
    assert all(is_shown(line) for line in text.split("\n"))


def test_json_text_keeps_its_own_line_ends() -> None:
    assert shown_json('{\n"a":"\x9b\u202e"\n}\n') == '{\n"a":"\\u009b\\u202e"\n}\n'


def test_json_is_made_of_anything() -> None:
    assert json_bytes({"a": "\ud800"}) == b'{"a":"\\ud800"}'
    assert json.loads(json_bytes({"a": range(2), "b": "\ud800"})) == {"a": "range(0, 2)", "b": "\ud800"}
