"""`mooring completion`: scripts that make a shell complete commands, flags, files and contexts."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from mooring.cli.completion_scripts import MARK, SHELLS, script
from mooring.cli.refusal import refuse, writing
from mooring.cli.terminal import tell, tell_script

EPILOG = """
\b
Examples:
  mooring completion --install               for the shell that you use
  mooring completion --install fish          for another one
  source <(mooring completion bash)          for this session only
  mooring completion zsh > ~/.zfunc/_mooring put it where you like

Exit status: 0 when the script is printed or written, 2 when the shell is unknown or the file cannot be written.
"""


@click.command(epilog=EPILOG, short_help="Make your shell complete `mooring`.")
@click.argument("shell", required=False, type=click.Choice(sorted(SHELLS)))
@click.option("--install", is_flag=True, help="Write the script to where the shell looks for it.")
def completion(shell: str | None, install: bool) -> None:
    """Print the completion script of a shell, or install it for your user.

    --install replaces a script that it wrote before, and leaves every other file as it is.
    """
    if not install:
        if shell is None:
            refuse(
                "name a shell: mooring completion bash|zsh|fish; or install the script: mooring completion --install"
            )
        tell_script(script(shell))
        return
    chosen = shell or _shell_in_use(os.environ)
    path = place_of(chosen, os.environ)
    _write(path, script(chosen))
    tell(f"The completion for {chosen} is in {path}. Delete this file to remove it.")
    tell(_next_step(chosen, path))


def _shell_in_use(environment: Mapping[str, str]) -> str:
    """The shell of the user, as $SHELL has it."""
    named = environment.get("SHELL", "")
    if (shell := Path(named).name) not in SHELLS:
        refuse(f"SHELL is {named!r}: name a shell, as in mooring completion --install bash")
    return shell


def place_of(shell: str, environment: Mapping[str, str]) -> Path:
    """The file that the shell reads when `mooring` is completed for the first time.

    Bash (with the package bash-completion) and fish look there by themselves. zsh has no such folder for a single user.
    """
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    if shell == "bash":
        return Path(environment.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions" / "mooring"
    if shell == "zsh":
        return data / "zsh" / "site-functions" / "_mooring"
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "mooring.fish"


def _next_step(shell: str, path: Path) -> str:
    """A line that says what the user still has to do."""
    if shell == "bash":
        return (
            f"New shells use it if the package bash-completion is installed; else add this to ~/.bashrc: source {path}"
        )
    if shell == "zsh":
        return (
            f"Add this to ~/.zshrc before compinit, unless fpath has the folder already: fpath=({path.parent} $fpath)"
        )
    return "New shells use it."


def _write(path: Path, text: str) -> None:
    """Write the script all at once. A file that somebody else wrote stays as it is."""
    with writing(path):
        if path.is_symlink() or (path.exists() and MARK not in path.read_text(errors="replace").splitlines()[:2]):
            refuse(f"{path}: this file was not written by `mooring completion --install`; move it away, then repeat")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(text)
        new.replace(path)
