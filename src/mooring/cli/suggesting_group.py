"""Groups of commands that say which commands are similar to one that does not exist.

Hot: the module imports next to nothing, so that `mooring --version` and the completion of a shell import no scheduler.
"""

import click

from mooring.kit.words import similar


class SuggestingGroup(click.Group):
    """A group that says which commands are similar, also if it imports them only when they run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            found = " or ".join(map(repr, similar(name, self.list_commands(ctx), 2)))
            ctx.fail(f"No such command {name!r}.{f' Did you mean {found}?' if found else ''}")
        return super().resolve_command(ctx, args)
