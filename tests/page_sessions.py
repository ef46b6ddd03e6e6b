"""Sessions in documents: commands after a prompt with what they print, and files that a reader is told to save."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """A command of a document and what it prints there; `...` stands for lines that are left out."""

    command: str
    printed: str
    given: str = ""
    """Its standard input, from a `printf '...' |` before the command."""


def sessions(page: str) -> list[Session]:
    """The commands of all indented blocks that begin with a prompt, in their order."""
    found = []
    for block in re.findall(r"(?m)^    \$ .*\n(?:    .*\n|\n(?=    (?!\$)))*", page):
        for part in re.split(r"(?m)^    \$ ", block)[1:]:
            written, _, printed = part.partition("\n")
            piped = re.fullmatch(r"printf '(.*)' \| (.*)", written)
            given, command = (piped[1].replace("\\n", "\n"), piped[2]) if piped else ("", written)
            found.append(Session(command, re.sub(r"(?m)^    ", "", printed).strip("\n"), given))
    return found


def as_pattern(printed: str) -> str:
    """A regular expression for what a command may print."""
    return re.escape(printed).replace(re.escape("\n...\n"), r"\n(?:.*\n)*").replace(re.escape("\n..."), r"\n[\s\S]*")


def saved_files(page: str) -> dict[str, str]:
    """The fenced blocks after `Save this as ...:` and `this as ...:`, by name."""
    return dict(re.findall(r"this as `([\w.-]+)`:\n\n```\w*\n(.*?)```", page, re.DOTALL))
