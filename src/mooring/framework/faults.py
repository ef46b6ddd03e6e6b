"""What a plugin raised, in one line that its author can act on: the type, the text, the file and the line."""

import logging
import os
import traceback

from mooring.framework.status import PluginError

TRACEBACK_LEVEL = logging.INFO - 4
"""V(4), where upstream logs what plugins do: the whole traceback. `mooring simulate --debug` shows it too."""

log = logging.getLogger(__name__)

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IN_TREE = os.path.join(_OWN, "plugins") + os.sep
_FOREIGN = (os.sep + "site-packages" + os.sep, os.path.dirname(os.__file__) + os.sep, "<frozen ")
"""Packages and the standard library: what they raise is the fault of the line that called them."""


def describe(fault: BaseException | str) -> str:
    """`ZeroDivisionError: division by zero (mine.py, line 12)`.

    An error that plugins raise on purpose, and one that the framework raises over an answer that it cannot use, says
    in its text all that there is to say.
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
    if file.startswith(_OWN):
        return file.startswith(_IN_TREE)
    return not any(part in file for part in _FOREIGN)
