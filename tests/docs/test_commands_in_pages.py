"""Every command of Mooring that a page names exists, with all its options: in blocks and in sentences."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

import click
import pytest

from docs_pages import ROOT, all_pages
from mooring.cli.main import main

PAGES = [page for page in all_pages() if page != "CHANGELOG.md"]
"""The history may name what has gone since."""
EXAMPLES = {"CONTRIBUTING.md": ["count-pods"]}
"""Commands that a page adds itself."""


def commands(text: str) -> Iterator[str]:
    """Commands in lines of blocks, and in backquotes. Three spaces begin another column."""
    for found in re.finditer(r"(?m)(?:^(?:    |  )*(?:\$ )?|[`'(]|(?:&&|\|) )mooring (?=[a-z])([^`\n]*)", text):
        yield re.split(r"\s{3,}", found[1])[0].rstrip("\\ ")


def arguments_of(written: str) -> list[str]:
    """The words of a command, up to the next command or a comment. Raises ValueError."""
    words = shlex.shlex(written, posix=True, punctuation_chars="|&;>")
    words.whitespace_split = True
    return [*takewhile(lambda word: word[0] not in "|&;>" if word else True, words)]


def fault_of(written: str) -> str:
    """What is wrong with a command; empty if nothing is."""
    arguments = arguments_of(written)
    command: click.Command = main
    context = click.Context(main, info_name="mooring")
    while isinstance(command, click.Group) and arguments and re.fullmatch(r"[a-z-]+", arguments[0]):
        name = arguments.pop(0)
        inner = command.get_command(context, name)
        if inner is None:
            return f"no command {name}"
        command, context = inner, click.Context(inner, parent=context)
    try:
        command.make_parser(context).parse_args(arguments)
    except click.NoSuchOption as fault:
        return fault.format_message()
    except click.BadOptionUsage:
        return ""  # a sentence may name an option without its value
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_exists(page: str) -> None:
    written = [each for each in commands((ROOT / page).read_text()) if each not in EXAMPLES.get(page, ())]
    faults = {each: fault_of(each) for each in written}
    assert {each: fault for each, fault in faults.items() if fault} == {}


def test_commands_are_found() -> None:
    text = """\
`mooring run --config FILE` and `mooring up`; mooring is a word

    $ mooring dump -o - | mooring simulate -
    mooring nodes fail node-0001     a column
    KUBECONFIG=x mooring plan
    mooring up --exec 'a && b' && c  # comment
"""
    found = [*commands(text)]
    assert [arguments_of(each) for each in found] == [
        ["run", "--config", "FILE"],
        ["up"],
        ["dump", "-o", "-"],
        ["nodes", "fail", "node-0001"],
        ["up", "--exec", "a && b"],
    ]
    assert sum(len([*commands((ROOT / page).read_text())]) for page in PAGES) > 250


def test_faults_are_found() -> None:
    assert fault_of("simulate x.yaml --explian web").startswith("No such option")
    assert fault_of("simulate x.yaml --explain") == ""
    assert fault_of("simulat x.yaml") == "no command simulat"
    assert fault_of("config check --config x").startswith("No such option")
    assert fault_of("run --dry-run --secure-port=0") == "" == fault_of("nodes drain node-0001")
