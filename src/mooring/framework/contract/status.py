"""Answers of plugins. A rejection is a value (Rejection), a failure of the plugin is an exception (PluginError), and None
means no objection."""

import logging
import os
import traceback
from enum import Enum, IntEnum
from typing import Literal

import msgspec


class Code(IntEnum):
    """Upstream's status codes; the names are what users see."""

    Success = 0
    Error = 1
    Unschedulable = 2
    UnschedulableAndUnresolvable = 3
    Wait = 4
    Skip = 5
    Pending = 6


class Rejection(msgspec.Struct, frozen=True):
    """A verdict against a pod, or against one node for it.

    `Unschedulable` means that removing pods from the node could cure it: preemption reads that.
    """

    reasons: tuple[str, ...]
    code: Code = Code.UnschedulableAndUnresolvable
    plugin: str = ""

    @property
    def message(self) -> str:
        """The reasons as upstream joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Rejection":
        """This rejection with the plugin's name: plugins themselves do not fill it in."""
        return Rejection(self.reasons, self.code, plugin)


FoundRejection = tuple[int, int, int, Rejection]
"""The index of a filter that rejected rows, one of its codes, on how many rows, and what the code means."""


def curable(*reasons: str) -> Rejection:
    """A rejection that preemption could cure."""
    return Rejection(reasons, Code.Unschedulable)


def final(*reasons: str) -> Rejection:
    """A rejection that stays whichever pods leave."""
    return Rejection(reasons, Code.UnschedulableAndUnresolvable)


class Sentinel(Enum):
    """The types of the constants below: mypy narrows enum members with `is`, so that callers need no cast."""

    SKIP = "skip"
    SKIP_SHAPE = "skip shape"
    SKIP_FOR_NOW = "skip for now"


SKIP: Literal[Sentinel.SKIP] = Sentinel.SKIP
"""From PreFilter or PreScore: this plugin has nothing to say about this pod, leave it out of the attempt."""

SKIP_SHAPE: Literal[Sentinel.SKIP_SHAPE] = Sentinel.SKIP_SHAPE
"""SKIP that follows from the pod's shape alone, or from the part of it that `@reads` names: the framework does not ask again
for pods with this part."""

SKIP_FOR_NOW: Literal[Sentinel.SKIP_FOR_NOW] = Sentinel.SKIP_FOR_NOW
"""SKIP that follows from that part, the labels and the controller of the pod, and the objects that the plugin's
`version` counts changes of: the framework does not ask again for such pods while the version stays."""

Skip = Literal[Sentinel.SKIP, Sentinel.SKIP_SHAPE, Sentinel.SKIP_FOR_NOW]

SKIPS = (SKIP, SKIP_SHAPE, SKIP_FOR_NOW)


class PluginError(Exception):
    """A plugin could not do its work: the attempt ends in an error, with upstream's text."""


class OutOfEffort(PluginError):
    """A plugin used up the effort that an attempt may cost. The next attempt goes on from there, so this is not an answer
    about the pod: it depends on what was asked before."""


# ---- Description of an exception of a plugin, in one line for its author: the type, the text, the file and the line


TRACEBACK_LEVEL = logging.INFO - 4
"""V(4), where upstream logs what plugins do: the whole traceback. `mooring simulate --debug` shows it too."""

log = logging.getLogger(__name__)

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
"""The folder of the package mooring: frames in it are ours, except for in-tree plugins."""
_IN_TREE = os.path.join(_OWN, "plugins") + os.sep
_FOREIGN = (os.sep + "site-packages" + os.sep, os.path.dirname(os.__file__) + os.sep, "<frozen ")
"""Packages and the standard library: what they raise is the fault of the line that called them."""


def describe(fault: BaseException | str) -> str:
    """`ZeroDivisionError: division by zero (mine.py, line 12)`.

    The text alone is enough for errors that plugins raise on purpose, and for those that the framework raises about an
    answer that it cannot use.
    """
    if isinstance(fault, str | PluginError):
        return str(fault)
    log.log(TRACEBACK_LEVEL, "Plugin raised an exception", exc_info=fault)
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(fault.__traceback__)]
    authors = [(file, line) for file, line in frames if _is_of_a_plugin(file)]
    if (not authors and isinstance(fault, ValueError | TypeError)) or type(fault).__module__.startswith(
        "mooring.framework."
    ):
        return str(fault) or type(fault).__name__
    text = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    return f"{text} ({authors[-1][0]}, line {authors[-1][1]})" if authors else text


def _is_of_a_plugin(file: str) -> bool:
    """Whether a file belongs to the author of a plugin: the line to show in an error."""
    if file.startswith(_OWN):
        return file.startswith(_IN_TREE)
    return not any(part in file for part in _FOREIGN)
