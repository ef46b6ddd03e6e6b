"""`kubectl mooring ...`: kubectl runs an executable `kubectl-mooring` of the PATH, and asks `kubectl_complete-mooring` what
could come next in a line.

The second one gets the words after `kubectl mooring`, the last of them begun or empty. It prints a line for each answer,
value and help with a tab between them, and last a colon with a number that says what the shell may add by itself.
"""

import os
import sys

from click.shell_completion import ShellComplete

from mooring.cli.completion_scripts import VARIABLE
from mooring.cli.main import main
from mooring.cli.terminal import tell_script
from mooring.kit.shown_text import is_shown

PROGRAM = "kubectl mooring"
FILES, NOTHING_MORE = 0, 4
"""Directives of kubectl's completion: complete paths as well, or add nothing."""


def run() -> None:
    """The program `kubectl-mooring`."""
    main(prog_name=PROGRAM)


def complete() -> None:
    """The program `kubectl_complete-mooring`."""
    os.environ[VARIABLE] = "kubectl"  # values of flags are offered while a shell asks
    words = sys.argv[1:] or [""]
    items = ShellComplete(main, {}, PROGRAM, VARIABLE).get_completions(words[:-1], words[-1])
    for item in items:
        if item.type == "plain" and is_shown(str(item.value)):
            told = " ".join((item.help or "").split())
            tell_script(f"{item.value}\t{told}\n" if told else f"{item.value}\n")
    tell_script(f":{FILES if any(item.type in ('file', 'dir') for item in items) else NOTHING_MORE}\n")
