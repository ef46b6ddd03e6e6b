"""The plugins that can be named in a configuration: those of Mooring, and those that installed packages offer.

A package offers a plugin with an entry point in the group `mooring.plugins`:

    [project.entry-points."mooring.plugins"]
    MyPlugin = "my_package.my_module:MyPlugin"
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.framework.contract.annotation_keys import AnnotationKeys, declared_keys, reads_annotations
from mooring.framework.contract.plain import PlainPlugin, lift
from mooring.framework.contract.points import Handle, Plugin
from mooring.framework.contract.status import describe
from mooring.kit.bounded_reading import read_file
from mooring.model.shape import add_shape_annotations

if TYPE_CHECKING:  # 6 ms of the start, where no package has plugins
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "mooring.plugins"
"""Name of the entry point group that packages with plugins declare in their pyproject.toml."""
_OWN_MODULES = "mooring."
"""The modules of plugins that come with Mooring: dumps and recordings have the annotations that these read."""

P = TypeVar("P", bound=type[Plugin] | type[PlainPlugin])

PluginFactory = Callable[[Any, Handle], Plugin]
"""Builds a plugin from its arguments and the handle; a plugin class is one."""


class RegistryError(ValueError):
    """A plugin cannot be registered, or is not there to be removed."""


class Registry:
    """Plugin name -> how to build it, in the order of registration."""

    def __init__(self, plugins: Iterable[type[Plugin] | type[PlainPlugin]] = ()) -> None:
        self._factories: dict[str, PluginFactory] = {}
        self.files: dict[str, str] = {}
        """Plugin name -> the file that `load_file` found it in."""
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: P) -> P:
        """Add a plugin class, plain or over columns, under its own name; can be used as a decorator."""
        self.register_factory(plugin.name, lift(plugin) if issubclass(plugin, PlainPlugin) else plugin)
        return plugin

    def register_factory(self, name: str, factory: PluginFactory) -> None:
        """Add a factory under a name; raises RegistryError if the name is taken, as upstream."""
        if name in self._factories:
            raise RegistryError(f"a plugin named {name} already exists")
        add_shape_annotations(getattr(factory, "shape_annotations", ()))
        self._factories[name] = factory

    def merge(self, other: "Registry") -> None:
        """Take over all plugins of another registry. Raises at the first name that is taken; those before it stay
        registered."""
        for name, factory in other.items():
            self.register_factory(name, factory)

    def items(self) -> Iterator[tuple[str, PluginFactory]]:
        yield from self._factories.items()

    def factory(self, name: str) -> PluginFactory:
        return self._factories[name]

    def annotation_keys(self, name: str) -> AnnotationKeys:
        """The annotations that a plugin declares to read."""
        return declared_keys(self._factories[name])

    def all_annotation_keys(self) -> AnnotationKeys:
        """The annotations that any plugin declares to read."""
        return AnnotationKeys.of(pattern for name in self for pattern in self.annotation_keys(name).patterns())

    def undeclared_readers(self) -> list[str]:
        """Plugins of users whose code reads annotations, and that declare none."""
        found = []
        for name, factory in self.items():
            plugin = getattr(factory, "plain", factory)
            is_own = getattr(plugin, "__module__", "").startswith(_OWN_MODULES)
            if isinstance(plugin, type) and not is_own and not declared_keys(plugin) and reads_annotations(plugin):
                found.append(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)


def load_entry_points(registry: Registry) -> None:
    """Add the plugins of installed packages, by name so that the order does not depend on the installation."""
    for entry in _offered(tuple(map(_changed_ns, sys.path))):
        try:
            registry.register(_checked(_imported(entry)))
        except RegistryError as error:
            raise RegistryError(f"entry point {entry.name} = {entry.value} of {ENTRY_POINT_GROUP}: {error}") from error


@lru_cache(maxsize=1)
def _offered(changed_ns: tuple[tuple[str, int], ...]) -> "tuple[EntryPoint, ...]":
    """Entry points of installed packages, sorted. They are looked up again after a package was installed or removed.

    Hot: importlib.metadata takes 16 ms for 150 packages, imports included; to see that none has plugins takes 2 ms. Each
    self-check builds a scheduler, which asks again.
    """
    if not any(_may_declare(path or ".") for path in sys.path):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: (entry.name, entry.value)))


def _may_declare(path: str) -> bool:
    """Whether a package in this folder may declare plugins: one names the group, or it is no folder but an archive."""
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(_names_group(f"{path}/{name}/entry_points.txt") for name in names if name.lower().endswith("-info"))


def _names_group(file: str) -> bool:
    try:
        with open(file, "rb", buffering=0) as declared:
            return ENTRY_POINT_GROUP.encode() in declared.read()
    except OSError:
        return False


def _changed_ns(path: str) -> tuple[str, int]:
    """A folder or archive of packages, and when one came or went there; 0 for what does not exist."""
    try:
        return path, os.stat(path or ".").st_mtime_ns
    except OSError:
        return path, 0


def load_file(registry: Registry, path: str) -> None:
    """Add the plugins that a Python file defines: every plugin class in it that has a name. Classes that it imports
    do not count. The path may also be a package, a folder with an __init__.py: it may import its own modules."""
    name = f"mooring_plugin_{Path(path).stem}"
    try:
        scope = _run_package(name, path) if Path(path).is_dir() else _run_file(name, path)
    except RegistryError:
        raise
    except Exception as error:  # foreign code may raise anything, and the user must learn whose it is
        raise RegistryError(f"{path}: cannot be loaded: {_described(error)}") from error
    own = [c for c in scope.values() if isinstance(c, type) and f"{c.__module__}.".startswith(f"{name}.")]
    plugins = [c for c in own if issubclass(c, Plugin | PlainPlugin) and hasattr(c, "name")]
    if not plugins:
        raise RegistryError(f"{path}: defines no plugin: a class with a `name` that extends an extension point")
    for plugin in plugins:
        try:
            registry.register(_checked(plugin))
        except ValueError as error:
            raise RegistryError(f"{path}: {plugin.__name__}: {error}") from error
        registry.files[plugin.name] = path


def _run_file(name: str, path: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": name, "__file__": path}
    try:
        text = read_file(path)
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read: {error.strerror}") from error
    exec(compile(text, path, "exec"), scope)
    return scope


def _run_package(name: str, path: str) -> dict[str, Any]:
    """Import a package from a folder. Python finds its modules by its name among all modules, so it stays there; the modules
    of another folder of this name do not."""
    opening = Path(path) / "__init__.py"
    if not opening.is_file():
        raise FileNotFoundError("the folder is no package: it has no __init__.py")
    spec = spec_from_file_location(name, opening, submodule_search_locations=[path])
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    for known in [known for known in sys.modules if f"{known}.".startswith(f"{name}.")]:
        del sys.modules[known]
    package = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(package)
    return vars(package)


def _imported(entry: "EntryPoint") -> Any:
    """Import the object that the entry point refers to. The import runs code of the package. Raises RegistryError if it
    fails."""
    try:
        return entry.load()
    except Exception as error:  # importing foreign code may raise anything, and the user must learn whose it is
        raise RegistryError(f"cannot be imported: {_described(error)}") from error


def _described(error: Exception) -> str:
    """A SyntaxError names file and line in its own text; `describe` adds them for others."""
    return f"{type(error).__name__}: {error}" if isinstance(error, SyntaxError) else describe(error)


def _checked(loaded: Any) -> type[Plugin] | type[PlainPlugin]:
    """Return the loaded object if it is a plugin class that can be built; otherwise raise RegistryError. The texts tell the
    author what to change in the class."""
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin | PlainPlugin)):
        raise RegistryError(
            "is not a plugin class (a subclass of mooring.plugin.Plugin or of mooring.plugin.PlainPlugin)"
        )
    if not isinstance(getattr(loaded, "name", None), str):
        raise RegistryError("has no name: the class needs an attribute `name`, what users type in the configuration")
    if inspect.isabstract(loaded):
        missing = ", ".join(sorted(getattr(loaded, "__abstractmethods__", ())))
        raise RegistryError(f"does not implement what its extension points ask for: {missing}")
    try:
        declared_keys(loaded)
    except ValueError as error:
        raise RegistryError(str(error)) from error
    return loaded
