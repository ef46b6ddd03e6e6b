"""The reference of the command line, from the commands themselves: usage, arguments, options, examples, exit status."""

import inspect
import re
from collections.abc import Iterator

import click
from documentation import slug
from reference_text import block, code, page, paragraphs, prose, table

from mooring.cli.main import main

_EXIT_STATUS = re.compile(r"^Exit status:.*", re.DOTALL)
_DEFAULT = re.compile(r"\s*\[default: (.*)\]$", re.DOTALL)


def commands_page() -> str:
    """Every command with everything that it takes."""
    listed = [f"- [`{name}`](#{slug(name)}): {prose(command.get_short_help_str(200))}" for name, command, _ in walk()]
    intro = "Every command has `-h` and `--help`. `mooring --version` prints the version."
    sections = [part for name, command, context in walk() for part in _section(name, command, context)]
    return page("Commands", intro, "\n".join(listed), *sections)


def exit_codes_page() -> str:
    """The exit status of every command, from what its help says."""
    rows = [[f"[`{name}`](commands.md#{slug(name)})", *_statuses(status)] for name, status in exit_texts()]
    intro = """\
A command whose input is invalid exits with 2, prints one line for each problem on standard error, and changes nothing. A
wrong option prints the usage as well. A command that does its work exits with 0. Other statuses are answers, for scripts."""
    return page("Exit codes", intro, table(["command", "exit status"], rows))


def flags_page() -> str:
    """The options that several commands have: one row for each meaning, with the commands in which it is this one."""
    rows = []
    for name, forms in sorted(shared_flags().items()):
        for (value, text), commands in forms.items():
            where = ", ".join(f"[`{each}`](commands.md#{slug(each)})" for each in commands)
            rows.append([code(name), code(value), prose(_DEFAULT.sub("", text)), where])
    intro = """\
An option that several commands have means the same in all of them. Where a command adds something to the meaning, the option
has a row for it."""
    return page("Flags", intro, table(["option", "value", "meaning", "commands"], rows))


def shared_flags() -> dict[str, dict[tuple[str, str], list[str]]]:
    """Each option of two or more commands: its value and its help -> the commands in which it has them."""
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, command, context in walk():
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                value = "" if option.is_flag else option.make_metavar(context)
                form = found.setdefault(", ".join(option.opts), {})
                form.setdefault((value, option.help or ""), []).append(name)
    return {name: forms for name, forms in found.items() if sum(map(len, forms.values())) > 1}


def exit_texts() -> Iterator[tuple[str, str]]:
    """The command, and the part of its help that begins with `Exit status`."""
    for name, command, _ in walk():
        for part in epilog_parts(command):
            if _EXIT_STATUS.match(part):
                yield name, part


def _statuses(text: str) -> list[str]:
    """One cell: a list of statuses, or a sentence."""
    head, *lines = text.splitlines()
    listed = re.findall(r"^ +(\d+)  (.*)$", text, re.MULTILINE)
    if listed:
        return ["<br>".join(f"{code(status)} {prose(meaning)}" for status, meaning in listed)]
    return [prose(" ".join([head.removeprefix("Exit status:"), *lines]))]


def walk() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that can be run, by its full name, in the order of `mooring --help`."""
    yield from _below(main, click.Context(main, info_name="mooring"))


def _below(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name)
        yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from _below(command, inner)


def _section(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {name}"
    yield paragraphs(command.help or "")
    yield block(" ".join([name, *command.collect_usage_pieces(context)]))
    options = [option for option in command.params if isinstance(option, click.Option)]
    rows = [_row(option, context) for option in options if not option.hidden]
    if rows:
        yield table(["option", "value", "default", "meaning"], rows)
    ignored = sorted(code(option.opts[0]) for option in options if option.hidden)
    if ignored:
        yield f"Accepted and ignored: {', '.join(ignored)}."
    for part in epilog_parts(command):
        yield _as_shown(part)


def _row(option: click.Option, context: click.Context) -> list[str]:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else code(option.make_metavar(context))
    written = _DEFAULT.search(option.help or "")
    text = _DEFAULT.sub("", option.help or "")
    default = written[1] if written else _default(option, context)
    if option.multiple and not re.search(r"several times|repeated|one only", text):
        text += " Can be given several times."
    return [names, value, code(default), prose(text)]


def _default(option: click.Option, context: click.Context) -> str:
    """The default where it is a value that one could write; that of a flag is off."""
    default = option.get_default(context, call=False)
    if (
        option.is_flag
        or option.multiple
        or default is None
        or callable(default)
        or "Sentinel" in type(default).__name__
    ):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


def epilog_parts(command: click.Command) -> list[str]:
    """The paragraphs below the options of a help text."""
    text = inspect.cleandoc((command.epilog or "").replace("\b", ""))
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def _as_shown(part: str) -> str:
    """A paragraph with columns keeps them; any other is prose."""
    head, *lines = part.splitlines()
    if not any(line.startswith("  ") for line in lines):
        return paragraphs(part)
    first = next(index for index, line in enumerate(lines) if line.startswith("  "))
    return f"{prose(' '.join([head, *lines[:first]]))}\n\n{block(inspect.cleandoc(chr(10).join(['', *lines[first:]])))}"
