"""How the command line says no: one line for each problem on standard error, and exit status 2."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import click

from mooring.framework.config import ConfigError
from mooring.framework.registry import RegistryError
from mooring.sim.scenario import ScenarioError
from mooring.sim.simulation import InputError, NoSuchPod

BAD_INPUT = 2
_SHOWN_CHARACTERS = 1000


def refuse(*problems: object) -> NoReturn:
    """Print the problems and exit. What spans lines or is very long is brought to one line that can be read."""
    for problem in problems:
        text = " ".join(str(problem).split())
        click.echo(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...", err=True)
    sys.exit(BAD_INPUT)


@contextmanager
def refusals(source: str = "configuration", plugin_files: Sequence[str] = ()) -> Iterator[None]:
    """Refuse what turns out to be wrong with the input inside; `source` is where a configuration came from.

    Plugins of the user's own may raise anything, so with them nothing passes; without them an unknown exception is a
    bug of Mooring and is let through.
    """
    try:
        yield
    except ConfigError as error:
        refuse(*(f"{source}: {problem}" for problem in error.problems))
    except InputError as error:
        refuse(*error.problems)
    except (RegistryError, ScenarioError, NoSuchPod) as error:
        refuse(error)
    except (Exception, SystemExit) as fault:
        line = _line_of(fault, plugin_files)
        if not line and (isinstance(fault, SystemExit) or not plugin_files):
            raise
        text = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
        refuse(f"{line or ', '.join(plugin_files) + ': cannot be used'}: {text}")


def _line_of(fault: BaseException, plugin_files: Sequence[str]) -> str:
    """The line of a plugin file that the fault came from; empty when it came from none."""
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if f.filename in plugin_files]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
