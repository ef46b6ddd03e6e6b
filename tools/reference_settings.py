"""The reference of the configuration file and of feature gates, from the types and tables that Mooring reads them with."""

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_origin

import msgspec
import yaml
from documentation import slug
from gate_notes import GATE_NOTES
from msgspec.structs import FieldInfo, fields
from reference_text import code, field_texts, page, paragraphs, prose, summary_of, table

from mooring.framework import config as configuration
from mooring.framework.config import args
from mooring.framework.config.args import ARGS_KINDS, args_kind
from mooring.framework.config.durations import Duration
from mooring.framework.config.feature_gates import EFFECTIVE, GATES, NEEDS, OF_EMBEDDED, OF_SCHEDULERS
from mooring.framework.config.settings import as_object
from mooring.framework.config.types import (
    ClientConnectionConfiguration,
    GoType,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    Section,
)
from mooring.framework.profile.profiles import build_profiles
from mooring.state.scheduler_assembly import all_plugins

FOLLOWING = ("apiVersion", "kind")
"""Fields that arguments may leave out: they follow from the name of the plugin."""


def configuration_page() -> str:
    """Every section of the file, those of plugins last."""
    intro = """\
`--config` takes a file of kube-scheduler: `apiVersion: kubescheduler.config.k8s.io/v1`, `kind: KubeSchedulerConfiguration`.
Mooring reads it as kube-scheduler does, with the same defaults, checks and messages. `mooring config check FILE` checks a
file, `mooring config defaults FILE` prints it with all defaults, and `mooring config explain FILE` prints the plugins of each
profile. Only `tracing` is Mooring's own ([Traces](../tracing.md))."""
    file = _sections([KubeSchedulerConfiguration])
    arguments = [section for section in _sections([*ARGS_KINDS.values()]) if section not in file]
    used = _used_by_default()
    described = [part for section in file for part in _described(section, used)]
    of_plugins = [part for section in arguments for part in _described(section, used)]
    plugins = ["## Default plugins", _default_plugins()]
    return page("Configuration", intro, *described, *plugins, "## Arguments of plugins", *of_plugins)


def _sections(roots: Sequence[type[Section]]) -> list[type[Section]]:
    """Types of sections and those of their fields, each once, in the order in which they come."""
    found: list[type[Section]] = []
    waiting = [*roots]
    while waiting:
        section = waiting.pop(0)
        if section not in found:
            found.append(section)
            waiting += [inner for field in fields(section) for inner in _inner(field.type)]
    return found


def _inner(kind: Any) -> Iterator[type[Section]]:
    if isinstance(kind, type) and issubclass(kind, Section):
        yield kind
    for part in get_args(kind):
        yield from _inner(part)


def _used_by_default() -> dict[type[Section], dict[str, Any]]:
    """The sections that a scheduler without a file has, with their values."""
    default = as_object(configuration.default())
    used: dict[type[Section], dict[str, Any]] = {KubeSchedulerConfiguration: default}
    for field in fields(KubeSchedulerConfiguration):
        if field.type in (LeaderElectionConfiguration, ClientConnectionConfiguration):
            used[field.type] = default[field.encode_name]
    for entry in default["profiles"][0]["pluginConfig"]:
        kind = args_kind(entry["name"])
        assert kind is not None
        used[kind] = entry["args"]
    return used


def _described(section: type[Section], used: dict[type[Section], dict[str, Any]]) -> Iterator[str]:
    """A heading, what the section is for, and its fields."""
    is_argument = section.__module__ == args.__name__
    yield f"{'###' if is_argument else '##'} {_name(section)}"
    yield paragraphs(summary_of(section))
    texts = field_texts(section)
    rows = [
        [
            code(field.encode_name),
            _kind(field.type),
            _default(field, used.get(section, {})),
            prose(texts.get(field.name, "")),
        ]
        for field in fields(section)
        if not (is_argument and field.encode_name in FOLLOWING)
    ]
    yield table(["field", "type", "default", "meaning"], rows)


def _name(section: type[Section]) -> str:
    return section.go_name or section.__name__


def _kind(kind: Any) -> str:
    """The type as a reader of the file needs it."""
    if isinstance(kind, type):
        return _plain_kind(kind)
    parts = [part for part in get_args(kind) if part is not types.NoneType]
    if get_origin(kind) is list:
        return f"list of {_kind(parts[0])}"
    named = [part.name for part in parts if isinstance(part, GoType)]
    return named[0].removeprefix("v1.") if named else _kind(parts[0])


def _plain_kind(kind: type) -> str:
    if issubclass(kind, Section):
        return f"[{_name(kind)}](#{slug(_name(kind))})"
    names = {str: "string", bool: "boolean", int: "integer", float: "number", bytes: "base64", Duration: "duration"}
    return names.get(kind, kind.__name__.removesuffix("Spec").replace("Any", "any"))


def _default(field: FieldInfo, used: dict[str, Any]) -> str:
    """The value that a scheduler without a file has; an empty cell for nothing, and for what has a section of its own."""
    own = None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
    value = used.get(field.encode_name, own)
    if value in (None, "", [], {}, {"nanoseconds": 0}) or _has_defaults(field.type):
        return ""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return code(text.removesuffix("...\n"))


def _has_defaults(kind: Any) -> bool:
    return any(section.__module__ != args.__name__ for section in _inner(kind))


def _default_plugins() -> str:
    """The default profile by extension point."""
    profile = next(iter(build_profiles(configuration.default(), all_plugins()).values()))
    rows = [[code(point), ", ".join(map(code, names))] for point, names in profile.describe().items()]
    head = "The plugins of a profile that changes none, in their order of execution, with the weights of their scores."
    return f"{head}\n\n{table(['extension point', 'plugins'], rows)}"


# ---- feature gates


def gates_page() -> str:
    """All gates, those that change decisions of Mooring first."""
    groups = {
        "Gates with an effect in Mooring": EFFECTIVE,
        "Other gates of kube-scheduler": OF_SCHEDULERS - EFFECTIVE,
        "Gates of the embedded cluster": OF_EMBEDDED,
        "Gates of other components": GATES.keys() - OF_SCHEDULERS - OF_EMBEDDED,
    }
    intro = f"""\
`--feature-gates Name=true,Other=false` takes all {len(GATES)} gates of Kubernetes v1.36, so that one flag serves all
components of a cluster, and `AllAlpha` and `AllBeta`. A gate that is locked cannot be changed; *needs* are gates that must be
on as well. Mooring refuses unknown gates and wrong combinations with kube-scheduler's messages. `mooring run` logs the
gates that differ from their defaults, and which of them have no effect."""
    texts = {
        "Other gates of kube-scheduler": "Mooring behaves as the column *in Mooring* says, whatever their values are.",
        "Gates of the embedded cluster": "They have no effect in kube-scheduler, but in the cluster of `mooring up`.",
        "Gates of other components": "They have no effect in a scheduler, and none in the cluster of `mooring up`.",
    }
    parts = [part for title, names in groups.items() for part in (f"## {title}", texts.get(title, ""), _gates(names))]
    return page("Feature gates", intro, *parts)


def _gates(names: Iterable[str]) -> str:
    """A table of gates; those that a scheduler or the embedded cluster knows have their effects and tests."""
    listed = sorted(names)
    has_notes = all(name in GATE_NOTES for name in listed)
    head = ["gate", "stage", "default", "locked", "needs", *(["effect", "in Mooring", "test"] if has_notes else ())]
    return table(head, [[*_of_gate(name), *(_noted(name) if has_notes else ())] for name in listed])


def _of_gate(name: str) -> list[str]:
    gate = GATES[name]
    needs = ", ".join(map(code, NEEDS.get(name, ())))
    return [code(name), gate.stage, str(gate.default).lower(), "yes" if gate.is_locked else "", needs]


def _noted(name: str) -> list[str]:
    note = GATE_NOTES[name]
    return [note.effect, note.ours, code(f"tests/{note.test}") if note.test else ""]
