"""Which runs a comparison has: every configuration with every combination of what is varied."""

import copy
import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from mooring.framework import config as configuration
from mooring.framework.config import ConfigError
from mooring.framework.config.args import args_kind
from mooring.framework.config.settings import as_object
from mooring.framework.config.types import KubeSchedulerConfiguration, PluginConfig
from mooring.inputs.field_checks import nearest
from mooring.inputs.input_errors import InputError

# ---- Paths into a scheduler configuration: `profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type`.
#
# A step is the name of a field, the index of an item, or the `name` of an item. The arguments of a plugin follow its
# name directly. The types of the configuration say which fields there are, so a path may name a field that is not
# written.


_INDEX = re.compile(r"\[([^\]]*)\]")
_UNTYPED = inspect.AnyType()
"""The arguments of a plugin that has no Args kind: any field may be there."""
_NAMES_SHOWN = 20
SEED, LOAD = "seed", "load"
"""The names that can be varied beside fields of the configuration; hints name them too."""


class UnusablePlan(InputError):
    """Runs that cannot be planned; the text says why."""


class UnknownPath(UnusablePlan):
    """A path that leads nowhere; the text says at which step, and what could be meant."""


def with_value(written: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a configuration, in the form of a file, with this value at the path. Raises UnknownPath.

    Whether the value is a good one is for those to say who read the result.
    """
    changed = copy.deepcopy(dict(written))
    steps = _INDEX.sub(r".\1", path).split(".")
    _set(changed, inspect.type_info(KubeSchedulerConfiguration), steps, value, path)
    return changed


def _set(there: Any, kind: inspect.Type, steps: Sequence[str], value: Any, path: str) -> None:
    """Follow the steps from `there`, which has this type, and set what the last one names."""
    kind = _bare(kind)
    if isinstance(kind, inspect.ListType):
        _set_item(there, kind.item_type, steps, value, path)
        return
    if kind is not _UNTYPED and not _is_section(kind):
        raise UnknownPath(f"{path}: the field before {steps[0]!r} has no fields of its own")
    step, rest = steps[0], steps[1:]
    field = _field(kind, step, path)
    if not rest:
        there[step] = value
        return
    below = there.setdefault(step, [] if isinstance(_bare(field), inspect.ListType) else {})
    if kind is _UNTYPED and isinstance(below, list):
        field = inspect.ListType(_UNTYPED)
    elif not isinstance(below, dict | list):
        raise UnknownPath(f"{path}: {step!r} has no fields of its own")
    _set(below, field, rest, value, path)


def _set_item(items: list[Any], kind: inspect.Type, steps: Sequence[str], value: Any, path: str) -> None:
    """Go on in the item that has this index or name. Names may have dots in them, so the longest one that is there counts."""
    names = {item["name"]: i for i, item in enumerate(items) if isinstance(item, dict) and "name" in item}
    for count in range(len(steps), 0, -1):
        step, rest = ".".join(steps[:count]), steps[count:]
        index = int(step) if step.isascii() and step.isdecimal() and len(step) < 10 else names.get(step)
        if index is not None and index < len(items):
            break
    else:
        raise UnknownPath(f"{path}: no item {steps[0]!r} among {len(items)}{_hint(steps[0], names, 'names')}")
    if not rest:
        items[index] = value
        return
    below, bare = items[index], _bare(kind)
    if isinstance(bare, inspect.StructType) and bare.cls is PluginConfig and rest[0] not in ("name", "args"):
        rest = ["args", *rest]
    if isinstance(bare, inspect.StructType) and bare.cls is PluginConfig and rest[0] == "args" and len(rest) > 1:
        args = args_kind(below["name"])
        _set(below.setdefault("args", {}), inspect.type_info(args) if args else _UNTYPED, rest[1:], value, path)
        return
    _set(below, bare, rest, value, path)


def _field(kind: inspect.Type, step: str, path: str) -> inspect.Type:
    """The type of a field."""
    if not isinstance(kind, inspect.StructType):
        return _UNTYPED
    fields = {field.encode_name: field.type for field in kind.fields}
    if step not in fields:
        beside = (SEED, LOAD) if kind.cls is KubeSchedulerConfiguration else ()
        raise UnknownPath(f"{path}: unknown field {step!r}{_hint(step, (*fields, *beside), 'fields')}")
    return fields[step]


def _hint(step: str, known: Collection[str], noun: str) -> str:
    meant = nearest(step, known)
    if meant:
        return f"; did you mean {meant}?"
    listed = [*known][:_NAMES_SHOWN]
    more = ", ..." if len(known) > len(listed) else ""
    return f"; the {noun} are {', '.join(listed)}{more}" if listed else ""


def _bare(kind: inspect.Type) -> inspect.Type:
    """A type without `| None` and without what is only for messages."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return _UNTYPED if isinstance(kind, inspect.AnyType) else kind


def _is_section(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType) and issubclass(kind.cls, msgspec.Struct)


MAX_RUNS = 100_000
"""A product grows fast; more runs than this are a slip."""
MAX_LOAD = 1000.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run."""

    name: str
    """Unique in a comparison."""
    config_name: str
    config: KubeSchedulerConfiguration
    vary: tuple[tuple[str, Any], ...] = ()
    """The paths that are varied, with the values of this run."""
    seed: int | None = None
    """None: of nodes with the same score, the one with the lowest name is taken."""
    load: float = 1.0
    """How many pods arrive, as a multiple of those that are given."""

    @property
    def config_digest(self) -> str:
        return digest_of(as_object(self.config))

    def digest(self, inputs: str) -> str:
        """The key of a row of a results file. `inputs` is the digest of all that runs have in common."""
        return digest_of([inputs, as_object(self.config), self.seed, self.load])


def digest_of(written: Any) -> str:
    """The digest of plain data, whatever the order of its keys."""
    text = json.dumps(written, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan_runs(
    configs: Sequence[tuple[str, KubeSchedulerConfiguration]],
    vary: Mapping[str, Sequence[Any]],
    gates: Mapping[str, bool] | None = None,
    has_arrivals: bool = True,
) -> list[RunPlan]:
    """All runs, the first configuration first, the last variation fastest. Raises UnusablePlan, or ConfigError for a value
    that the configuration cannot have; its `source` names the run."""
    _check(configs, vary, has_arrivals)
    plans = [plan for name, config in _distinct(configs) for plan in _vary(name, config, vary, gates)]
    if len(plans) < 2:
        raise UnusablePlan("nothing to compare: name a second configuration, or vary something (--vary seed=1,2,3)")
    return plans


def _check(configs: Sequence[Any], vary: Mapping[str, Sequence[Any]], has_arrivals: bool) -> None:
    for path, values in vary.items():
        if not values:
            raise UnusablePlan(f"{path}: no values; write some: {path}=1,2")
    runs = len(configs) * math.prod(len(values) for values in vary.values())
    if runs > MAX_RUNS:
        raise UnusablePlan(f"{runs} runs are more than {MAX_RUNS}: vary less")
    for value in vary.get(SEED, ()):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise UnusablePlan(f"{SEED}: {value!r} is no seed: write whole numbers from 0")
    for value in vary.get(LOAD, ()):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_LOAD:
            raise UnusablePlan(f"{LOAD}: {value!r} is no load: write numbers above 0, up to {MAX_LOAD:g}")
    if LOAD in vary and not has_arrivals:
        raise UnusablePlan(f"{LOAD}: scales arrivals, and there are none: give arrivals or a plan to generate them")


def _distinct(
    configs: Sequence[tuple[str, KubeSchedulerConfiguration]],
) -> Iterator[tuple[str, KubeSchedulerConfiguration]]:
    """The configurations; those with the name of an earlier one get a number."""
    taken: set[str] = set()
    for name, config in configs:
        numbered = (name if i == 1 else f"{name} ({i})" for i in itertools.count(1))
        name = next(each for each in numbered if each not in taken)
        taken.add(name)
        yield name, config


def _vary(
    name: str, config: KubeSchedulerConfiguration, vary: Mapping[str, Sequence[Any]], gates: Mapping[str, bool] | None
) -> Iterator[RunPlan]:
    """The runs of one configuration. Configurations are read anew, so that each value is checked as in a file."""
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        own = {path: value for path, value in chosen.items() if path not in (SEED, LOAD)}
        run = " ".join((name, *(f"{path.rpartition('.')[2]}={_shown(value)}" for path, value in chosen.items())))
        varied = with_values(config, own, gates, run)
        yield RunPlan(run, name, varied, tuple(chosen.items()), chosen.get(SEED), float(chosen.get(LOAD, 1.0)))


def with_values(
    config: KubeSchedulerConfiguration, values: Mapping[str, Any], gates: Mapping[str, bool] | None, source: str
) -> KubeSchedulerConfiguration:
    """The configuration with values at some paths. Raises UnknownPath, and ConfigError with this source."""
    if not values:
        return config
    written = as_object(config)
    for path, value in values.items():
        written = with_value(written, path, value)
    try:
        return configuration.from_object(written, feature_gates=gates)
    except ConfigError as error:
        error.source = source
        raise


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
