"""The plugins that come with Mooring: those that modules of this package list in `PLUGINS`."""

import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from mooring.framework.contract.plain import PlainPlugin
from mooring.framework.contract.points import Plugin
from mooring.framework.profile.registry import Registry


def in_tree() -> Registry:
    """A registry of the plugins that come with Mooring. Which of them run, and in which order, is for the profile to say
    (config/defaults.py)."""
    return Registry(in_tree_plugins())


@cache
def in_tree_plugins() -> tuple[type[Plugin] | type[PlainPlugin], ...]:
    """The classes that modules list in `PLUGINS`: a new plugin is one file in a family, and no line here."""
    return tuple(plugin for module in _modules(sys.modules[__name__]) for plugin in getattr(module, "PLUGINS", ()))


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of the package and of its families, except those that a family wants to be imported later."""
    later = getattr(package, "IMPORTED_LATER", ())
    for found in pkgutil.iter_modules(package.__path__):
        if found.name not in later:
            module = import_module(f"{package.__name__}.{found.name}")
            yield from _modules(module) if found.ispkg else (module,)
