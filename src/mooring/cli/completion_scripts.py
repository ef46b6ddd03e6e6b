"""Completion of `mooring` in a shell: one script for each shell, and the answers that it asks the program for.

A script sends the line up to the cursor (`COMP_LINE`) and gets a line for each answer: kind, value and help, with
tabs between them. The kinds are click's: `plain` is a value, `file` and `dir` ask the shell to complete paths itself.
"""

import os
import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from mooring.kit.shown_text import is_shown

# ---- Values of flags and arguments: files where help says FILE or DIR, and contexts of the kubeconfig. Commands say these
# things in their help only. Their types are changed while a shell asks, and in no other run of a command.

_PATHS = re.compile(r"\[?(FILE|DIR)\b")


class ContextName(click.ParamType[str]):
    """A context of the kubeconfig that the line names, or of the one that kubectl would use."""

    name = "context"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[Any]]":
        """Names of contexts in the kubeconfig that begin with the typed text, for the completion of the shell."""
        # Hot: every command imports this module, and kubeconfig files take 8 ms to import.
        from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths, merged

        named = ctx.params.get("kubeconfig")
        try:
            contexts = merged(kubeconfig_paths(Path(named) if named else None)).contexts
        except KubeconfigError:
            return []  # the command itself tells what is wrong with the file
        return [CompletionItem(name) for name in sorted(contexts) if name.startswith(incomplete)]


class _FileName(click.Path):
    """A shell completes names of files. The command itself looks at them, as it does without completion."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


def offer_values(command: click.Command) -> None:
    """Make the parameters of a command, and of the commands below it, complete their values."""
    for param in command.params:
        if isinstance(param.type, click.types.StringParamType):
            param.type = _completed(param)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        offer_values(below)


def _completed(param: click.Parameter) -> "click.ParamType[Any]":
    if param.name == "context":
        return ContextName()
    told = _PATHS.match(param.metavar or "")
    if told is None:
        return param.type
    return _FileName(file_okay=told[1] == "FILE")


# ---- scripts

VARIABLE = "_MOORING_COMPLETE"
"""Set while a shell asks what could come next; click derives the name from that of the program."""

_NAMES = {"complete_var": VARIABLE, "prog_name": "mooring"}
"""The names that scripts are filled with."""
MARK = "# Written by `mooring completion --install`. Delete this file to remove the completion."


def _template(shell: str) -> str:
    """The script of a shell beside this module, in which the names of the variable and the program are to be filled in."""
    return Path(__file__).with_name(f"completion.{shell}").read_text()


class LineCompletion(ShellComplete):
    """Answers for the line up to the cursor. Subclasses differ in their script."""

    def source_vars(self) -> Any:
        return _NAMES

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words after the name of the program, and the word that has begun."""
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)
        begun = words.pop() if len(words) > 1 and not line[-1:].isspace() else ""
        return words[1:], begun

    def get_completions(self, args: list[str], incomplete: str) -> "list[CompletionItem[Any]]":
        """Without values that a shell would split, run or hide: a name in a kubeconfig may have any character."""
        return [item for item in super().get_completions(args, incomplete) if is_shown(str(item.value))]

    def format_completion(self, item: "CompletionItem[Any]") -> str:
        return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"


class BashCompletion(LineCompletion):
    """Bash replaces only what follows the last `=` or `:` of a word, so an answer must not repeat what stands before."""

    name = "bash"
    source_template = _template("bash")
    _kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        words, begun = super().get_completion_args()
        value = begun.partition("=")[2] if begun.startswith("-") else begun
        breaks = set("=:") & set(os.environ.get("COMP_WORDBREAKS", "=:"))
        self._kept = value[: 1 + max((value.rfind(each) for each in breaks), default=-1)]
        return words, begun

    def format_completion(self, item: "CompletionItem[Any]") -> str:
        return super().format_completion(CompletionItem(item.value.removeprefix(self._kept), item.type, item.help))


class ZshCompletion(LineCompletion):
    name = "zsh"
    source_template = _template("zsh")
    """Its compset leaves `--flag=` of a word aside, so that values and paths are matched with what follows."""


class FishCompletion(LineCompletion):
    name = "fish"
    source_template = _template("fish")


SHELLS: dict[str, type[LineCompletion]] = {each.name: each for each in (BashCompletion, ZshCompletion, FishCompletion)}


def register() -> None:
    """Let click answer in this form."""
    for shell in SHELLS.values():
        add_completion_class(shell)


def script(shell: str) -> str:
    """The script for a shell. The first line has to be what zsh looks for; the mark follows."""
    text = SHELLS[shell].source_template % _NAMES
    first, _, rest = text.partition("\n")
    return f"{first}\n{MARK}\n{rest}" if first.startswith("#") else f"{MARK}\n{text}"
