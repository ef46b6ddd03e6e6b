"""What a shell needs to complete `mooring`: one script for each shell, and the answers that it asks the program for.

A script sends the line up to the cursor (`COMP_LINE`) and gets a line for each answer: kind, value and help, with
tabs between them. The kinds are click's: `plain` is a value, `file` and `dir` ask the shell to complete paths itself.
"""

import os
import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths, merged
from mooring.kit.shown_text import is_shown

# ---- Values of flags and arguments that a shell can complete: files where help says FILE or DIR, and contexts of the
# kubeconfig.
#
# Commands say these things in their help only. Their types are changed while a shell asks, and in no other run of a
# command.


_PATHS = re.compile(r"\[?(FILE|DIR)\b")


class ContextName(click.ParamType[str]):
    """A context of the kubeconfig that the line names, or of the one that kubectl would use."""

    name = "context"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[Any]]":
        named = ctx.params.get("kubeconfig")
        try:
            contexts = merged(kubeconfig_paths(Path(named) if named else None)).contexts
        except KubeconfigError:
            return []  # the command itself tells what is wrong with the file
        return [CompletionItem(name) for name in sorted(contexts) if name.startswith(incomplete)]


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
    return click.Path(file_okay=told[1] == "FILE")


VARIABLE = "_MOORING_COMPLETE"
"""Set while a shell asks what could come next; click derives the name from that of the program."""

MARK = "# Written by `mooring completion --install`. Delete this file to remove the completion."

_BASH = """\
_mooring_completion() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            plain) printf -v value '%%q' "$value" && COMPREPLY+=("$value") ;;
        esac
    done < <(%(complete_var)s=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        "$1" 2>/dev/null)
}
complete -o nosort -F _mooring_completion %(prog_name)s
"""

# compset leaves `--flag=` of a word aside, so that values and paths are matched with what follows.
_ZSH = """\
#compdef %(prog_name)s
_mooring() {
    local reply
    local -a parts values shown
    local -i paths=0 folders=0
    for reply in ${(f)"$(%(complete_var)s=zsh_complete COMP_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \\
        $words[1] 2>/dev/null)"}; do
        parts=("${(@ps:\\t:)reply}")
        case $parts[1] in
            file) paths=1 ;;
            dir) folders=1 ;;
            plain) values+=("$parts[2]"); shown+=("$parts[2]${parts[3]:+  -- $parts[3]}") ;;
        esac
    done
    [[ $PREFIX == -*=* ]] && compset -P 1 '*='
    (( paths )) && _files
    (( folders )) && _files -/
    (( $#values )) && compadd -l -V mooring -d shown -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mooring "$@"
else
    compdef _mooring %(prog_name)s
fi
"""

_FISH = """\
function __mooring_complete
    set -l flag (string match --regex -- '^-[^=]*=' (commandline -ct))
    set -l rest (string replace --regex -- '^-[^=]*=' '' (commandline -ct))
    set -lx %(complete_var)s fish_complete
    set -lx COMP_LINE (commandline -cp | string collect)
    set -l program (commandline -opc)[1]
    for reply in ($program 2>/dev/null)
        set -l parts (string split \\t -- $reply)
        switch $parts[1]
            case file
                printf '%%s\\n' "$flag"(__fish_complete_path $rest)
            case dir
                printf '%%s\\n' "$flag"(__fish_complete_directories $rest)
            case plain
                printf '%%s%%s\\t%%s\\n' "$flag" $parts[2] "$parts[3]"
        end
    end
end
complete --no-files --command %(prog_name)s --arguments '(__mooring_complete)'
"""


class LineCompletion(ShellComplete):
    """Answers for the line up to the cursor. Subclasses differ in their script."""

    def source_vars(self) -> Any:
        """What the script is filled with."""
        return {"complete_var": VARIABLE, "prog_name": "mooring"}

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
        help = " ".join((item.help or "").split())
        return f"{item.type}\t{item.value}\t{help}"


class BashCompletion(LineCompletion):
    """Bash replaces only what follows the last `=` or `:` of a word, so an answer must not repeat what stands before."""

    name = "bash"
    source_template = _BASH
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
    source_template = _ZSH


class FishCompletion(LineCompletion):
    name = "fish"
    source_template = _FISH


SHELLS: dict[str, type[LineCompletion]] = {each.name: each for each in (BashCompletion, ZshCompletion, FishCompletion)}


def register() -> None:
    """Let click answer in this form."""
    for shell in SHELLS.values():
        add_completion_class(shell)


def script(shell: str) -> str:
    """The script for a shell. The first line has to be what zsh looks for; the mark follows."""
    text = SHELLS[shell].source_template % {"complete_var": VARIABLE, "prog_name": "mooring"}
    first, _, rest = text.partition("\n")
    return f"{first}\n{MARK}\n{rest}" if first.startswith("#") else f"{MARK}\n{text}"
