"""Which runs a comparison has: every configuration with every combination of what is varied."""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.answers.compare.config_paths import LOAD, SEED, UnknownPath, with_value
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.framework.config.settings import as_object
from mooring.inputs.input_errors import InputError

MAX_RUNS = 100_000
"""A product grows fast; more runs than this are a slip."""
MAX_LOAD = 1000.0


class UnusablePlan(InputError):
    """Runs that cannot be planned; the text says why."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run."""

    name: str
    """Unique in a comparison."""
    config_name: str
    config: KubeSchedulerConfiguration
    vary: tuple[tuple[str, Any], ...] = ()
    """What is varied, with the values of this run."""
    seed: int | None = None
    """None: of nodes with the same score, the one with the lowest name is taken."""
    load: float = 1.0
    """How many pods arrive, as a multiple of those that are given."""

    @property
    def config_digest(self) -> str:
        return digest_of(as_object(self.config))

    def digest(self, inputs: str) -> str:
        """What a row of a results file is known by. `inputs` is the digest of all that runs have in common."""
        return digest_of([inputs, as_object(self.config), self.seed, self.load])


def digest_of(written: Any) -> str:
    """Of plain data, whatever the order of its keys."""
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
    name: str,
    config: KubeSchedulerConfiguration,
    vary: Mapping[str, Sequence[Any]],
    gates: Mapping[str, bool] | None,
) -> Iterator[RunPlan]:
    """The runs of one configuration. Configurations are read anew, so that each value is checked as in a file."""
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        own = {path: value for path, value in chosen.items() if path not in (SEED, LOAD)}
        run = " ".join((name, *(f"{path.rpartition('.')[2]}={_shown(value)}" for path, value in chosen.items())))
        varied = _changed(config, own, gates, run) if own else config
        yield RunPlan(run, name, varied, tuple(chosen.items()), chosen.get(SEED), float(chosen.get(LOAD, 1.0)))


def _changed(
    config: KubeSchedulerConfiguration, values: Mapping[str, Any], gates: Mapping[str, bool] | None, run: str
) -> KubeSchedulerConfiguration:
    written = as_object(config)
    try:
        for path, value in values.items():
            written = with_value(written, path, value)
        return configuration.from_object(written, feature_gates=gates)
    except UnknownPath as error:
        raise UnusablePlan(str(error)) from None
    except ConfigError as error:
        error.source = run
        raise


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
