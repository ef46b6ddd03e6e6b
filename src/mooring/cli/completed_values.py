"""Values of flags and arguments that a shell can complete: files where help says FILE or DIR, and contexts of the kubeconfig.

Commands say these things in their help only. Their types are changed while a shell asks, and in no other run of a command.
"""

import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths, merged

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
