"""The registry, and plugins that come from installed packages."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mooring.framework.contract.points import Handle, Plugin, PreEnqueuePlugin
from mooring.framework.profile import registry as registry_module
from mooring.framework.profile.registry import Registry, RegistryError, load_entry_points, load_file
from mooring.model.pod import Pod


class First(Plugin):
    name = "First"


class Second(Plugin):
    name = "Second"


class Nameless(Plugin):
    pass


class Unfinished(PreEnqueuePlugin):
    name = "Unfinished"


class Finished(PreEnqueuePlugin):
    name = "Finished"

    def pre_enqueue(self, pod: Pod) -> None:
        return None


def test_plugins_are_kept_in_the_order_of_registration() -> None:
    registry = Registry([Second])
    assert registry.register(First) is First
    assert list(registry) == ["Second", "First"]
    assert dict(registry.items()) == {"Second": Second, "First": First}
    assert ("First" in registry, "Third" in registry, len(registry)) == (True, False, 2)


def test_a_factory_can_be_registered_under_any_name() -> None:
    def make(args: Any, handle: Handle) -> Plugin:
        return First(args, handle)

    registry = Registry()
    registry.register_factory("Alias", make)
    assert dict(registry.items()) == {"Alias": make}


def test_a_name_is_taken_once() -> None:
    with pytest.raises(RegistryError, match=r"^a plugin named First already exists$"):
        Registry([First, First])
    with pytest.raises(RegistryError, match=r"^a plugin named First already exists$"):
        Registry([First]).merge(Registry([Second, First]))


def test_registries_are_merged() -> None:
    registry = Registry([First])
    registry.merge(Registry([Second]))
    assert list(registry) == ["First", "Second"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points, name -> `module:attribute`, as installed packages would declare them; the module is `outside`."""
    module = ModuleType("outside")
    vars(module).update({cls.__name__: cls for cls in (First, Finished, Nameless, Unfinished)}, number=5)
    monkeypatch.setitem(sys.modules, "outside", module)
    declared: dict[str, str] = {}

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "mooring.plugins"
        return [EntryPoint(name, value, group) for name, value in declared.items()]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.setattr(registry_module, "_may_declare", lambda path: True)
    monkeypatch.setattr(registry_module, "_offered", registry_module._offered.__wrapped__)
    return declared


def test_installed_plugins_are_found_in_order_of_name(installed: dict[str, str]) -> None:
    installed.update({"b": "outside:First", "a": "outside:Finished"})
    registry = Registry([Second])
    load_entry_points(registry)
    assert list(registry) == ["Second", "Finished", "First"]


def _install(folder: Path, name: str, changed_s: int) -> None:
    """A package that offers one plugin. The time is set: file systems tell changes apart only milliseconds later."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[mooring.plugins]\n{name} = outside:{name}\n")
    os.utime(folder, (changed_s, changed_s))


def test_a_package_that_is_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("outside")
    vars(module).update({"First": First, "Finished": Finished})
    monkeypatch.setitem(sys.modules, "outside", module)
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for changed_s, name in enumerate(("First", "Finished"), 1_000_000):
        _install(tmp_path, name, changed_s)
        registry = Registry()
        load_entry_points(registry)
        found.append(list(registry))
    assert found == [["First"], ["Finished", "First"]]


def test_a_plugin_of_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path / "unpacked", "Zipped", 1_000_000)
    code = (
        "from mooring.plugin import PlainPlugin\n\n\nclass Zipped(PlainPlugin):\n    name = 'Zipped'\n\n"
        "    def filter(self, pod, node):\n        return None\n"
    )
    (tmp_path / "unpacked/outside.py").write_text(code)
    monkeypatch.setitem(
        sys.modules, "outside", ModuleType("outside")
    )  # the module that is imported here goes after the test
    monkeypatch.delitem(sys.modules, "outside")
    monkeypatch.syspath_prepend(shutil.make_archive(str(tmp_path / "packages"), "zip", tmp_path / "unpacked"))
    registry = Registry()
    load_entry_points(registry)
    assert list(registry) == ["Zipped"]


def test_packages_without_plugins_are_not_read_in_full() -> None:
    """The standard library reads the metadata of each package, which takes longer than all else at the start."""
    code = (
        "import sys; from mooring.framework.profile.registry import Registry, load_entry_points\n"
        "load_entry_points(Registry()); print('importlib.metadata' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n", "the packages of this environment have no plugins of Mooring"


BROKEN = {
    "a module that is not there": (
        "absent_module:X",
        "cannot be imported: ModuleNotFoundError: No module named 'absent_module'",
    ),
    "an attribute that is not there": (
        "outside:X",
        "cannot be imported: AttributeError: module 'outside' has no attribute 'X'",
    ),
    "no class": (
        "outside:number",
        "is not a plugin class (a subclass of mooring.plugin.Plugin or of mooring.plugin.PlainPlugin)",
    ),
    "no name": (
        "outside:Nameless",
        "has no name: the class needs an attribute `name`, what users type in the configuration",
    ),
    "methods that are missing": (
        "outside:Unfinished",
        "does not implement what its extension points ask for: pre_enqueue",
    ),
    "a name that is taken": ("outside:First", "a plugin named First already exists"),
}


@pytest.mark.parametrize(("value", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_entry_point_is_named(installed: dict[str, str], value: str, why: str) -> None:
    installed["mine"] = value
    with pytest.raises(RegistryError) as refused:
        load_entry_points(Registry([First]))
    assert str(refused.value) == f"entry point mine = {value} of mooring.plugins: {why}"


# ---- Plugins of a folder


def a_package(folder: Path, name: str, limit: int = 1) -> str:
    """A package whose plugin takes a number from another of its modules."""
    (folder / name).mkdir(parents=True)
    (folder / name / "limits.py").write_text(f"LIMIT = {limit}\n")
    lines = [
        "from mooring.plugin import Plugin",
        "from .limits import LIMIT",
        "class Packed(Plugin):",
        "    name = 'Packed'",
        "    limit = LIMIT",
    ]
    (folder / name / "packed.py").write_text("\n".join(lines))
    (folder / name / "__init__.py").write_text("from .packed import Packed\nfrom mooring.plugin import PlainPlugin\n")
    return str(folder / name)


def test_a_folder_is_a_package_whose_modules_may_import_each_other(tmp_path: Path) -> None:
    registry = Registry()
    path = a_package(tmp_path, "packed")
    load_file(registry, path)
    assert (list(registry), registry.files) == (["Packed"], {"Packed": path})


def test_folders_of_one_name_do_not_share_modules(tmp_path: Path) -> None:
    limits = []
    for limit in (1, 2):
        registry = Registry()
        load_file(registry, a_package(tmp_path / str(limit), "packed", limit))
        limits.append(getattr(registry.factory("Packed"), "limit", None))
    assert limits == [1, 2]


def test_a_folder_that_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as refused:
        load_file(Registry(), str(tmp_path))
    text = f"{tmp_path}: cannot be loaded: FileNotFoundError: the folder is no package: it has no __init__.py"
    assert str(refused.value).startswith(text)
