"""The plugins that can be named in a configuration: those of Mooring, and those that installed packages offer.

A package offers a plugin with an entry point in the group `mooring.plugins`:

    [project.entry-points."mooring.plugins"]
    MyPlugin = "my_package.my_module:MyPlugin"
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mooring.framework.points import Handle, Plugin

ENTRY_POINT_GROUP = "mooring.plugins"

PluginFactory = Callable[[Any, Handle], Plugin]
"""Builds a plugin from its arguments and the handle; a plugin class is one."""


class RegistryError(ValueError):
    """A plugin that cannot be registered, or is not there to be removed."""


class Registry:
    """Plugin name -> how to build it, in the order of registration."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._factories: dict[str, PluginFactory] = {}
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin]) -> type[Plugin]:
        """Add a plugin class under its own name; can be used as a decorator."""
        self.register_factory(plugin.name, plugin)
        return plugin

    def register_factory(self, name: str, factory: PluginFactory) -> None:
        if name in self._factories:
            raise RegistryError(f"a plugin named {name} already exists")
        self._factories[name] = factory

    def unregister(self, name: str) -> None:
        if name not in self._factories:
            raise RegistryError(f"no plugin named {name} exists")
        del self._factories[name]

    def merge(self, other: "Registry") -> None:
        """Take over all plugins of another registry; the first one whose name is taken ends it."""
        for name, factory in other.items():
            self.register_factory(name, factory)

    def items(self) -> Iterator[tuple[str, PluginFactory]]:
        yield from self._factories.items()

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)


def load_entry_points(registry: Registry) -> None:
    """Add the plugins of installed packages, by name so that the order does not depend on the installation."""
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            registry.register(_load(entry))
        except RegistryError as error:
            raise RegistryError(f"entry point {entry.name} = {entry.value} of {ENTRY_POINT_GROUP}: {error}") from error


def _load(entry: EntryPoint) -> type[Plugin]:
    """The class behind an entry point, checked to be a plugin that can be built."""
    try:
        loaded = entry.load()
    except Exception as error:  # importing foreign code may raise anything, and the user must learn whose it is
        raise RegistryError(f"cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise RegistryError("is not a plugin class (a subclass of mooring.framework.points.Plugin)")
    if not isinstance(getattr(loaded, "name", None), str):
        raise RegistryError("has no name: the class needs an attribute `name`, what users type in the configuration")
    if inspect.isabstract(loaded):
        missing = ", ".join(sorted(loaded.__abstractmethods__))
        raise RegistryError(f"does not implement what its extension points ask for: {missing}")
    return loaded
