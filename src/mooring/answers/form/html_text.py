"""Text of users in a page: escaped, of limited length, and with nothing that a reader cannot see.

Names of objects and labels may contain markup, characters that control terminals, and characters that reverse the direction
of what follows: a reader must not take one name for another.
"""

from html import escape

from mooring.kit.shown_text import replaced

MOST_CHARACTERS = 500
"""Of one cell or sentence: a message may be megabytes long."""


def safe(text: object, most: int = MOST_CHARACTERS) -> str:
    """The text for the content of an element, or for an attribute in double quotes."""
    return escape(visible(cut(str(text), most)))


def visible(text: str) -> str:
    """The text with characters that have no shape of their own as their number: ⟨U+202E⟩."""
    return replaced(text, lambda letter: f"⟨U+{ord(letter):04X}⟩")


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
