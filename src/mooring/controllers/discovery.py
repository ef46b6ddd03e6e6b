"""Finds controllers that need nothing but the API: a new file in a room of this package is enough to add one."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from mooring import controllers
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.control_loop import Controller


def discovered(api: ResourceApi) -> list[Controller]:
    """One of each class that a module of a room names in `CONTROLLERS`, in the order of the modules' names.

    Controllers that share tables with others, or have a pace, are put together by hand: cluster_services, workloads.
    """
    return [make(api) for module in _modules() for make in getattr(module, "CONTROLLERS", ())]


def _modules() -> Iterator[ModuleType]:
    for room in pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}."):
        if room.ispkg:
            path = import_module(room.name).__path__
            for module in pkgutil.iter_modules(path, f"{room.name}."):
                yield import_module(module.name)
