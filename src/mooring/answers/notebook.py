"""`mooring.load` and `mooring.simulate`: questions about a cluster as Python calls, for notebooks and tests of users.

They read the same input as the commands, but raise all problems at once instead of printing them: InputError, or an error
derived from it, has a line for each.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, TypedDict, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints, overload

from mooring.answers.capacity.capacity import Capacity, PodFile, capacity
from mooring.answers.experiments.comparing import Configs, compare, until_ns
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.explain.cure_search import DECISIONS
from mooring.answers.explain.explain import explain_named
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation, WorkloadExplanation
from mooring.answers.pending.asked_pending import explain_pending
from mooring.answers.pending.pending_answer import PendingExplanation
from mooring.answers.plan.offers import Offered
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulating import place_pending, run_day
from mooring.answers.simulate.simulation_answer import SimulationAnswer
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.study.studying import run_study
from mooring.answers.trial.changing_cluster import settled
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, what_if
from mooring.answers.what_if.workload_changes import with_files
from mooring.api.validation.problem import Problem, show
from mooring.framework.config import ConfigError
from mooring.framework.config.feature_gates import GateError
from mooring.framework.profile.registry import RegistryError
from mooring.inputs.arrivals import ArrivalsError, read_arrivals
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import read_load_plan
from mooring.inputs.loaded_cluster import Config, Gates, LoadedCluster, Objects, Plugins, Source, Written
from mooring.inputs.loaded_cluster import load as load_cluster
from mooring.inputs.offers.offer_files import prices_in
from mooring.kit.words import count
from mooring.model.node import Node

# ---- Calls of the Python interface: their arguments are checked before anything is done, and what is wrong is one
# InputError.


F = TypeVar("F", bound=Callable[..., Any])

_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}
"""Annotations that stand for more than their own class: numbers of NumPy are numbers too."""


def asks(**forms: str) -> Callable[[F], F]:
    """A call whose arguments must have the types of its annotations. `forms` says what each argument must be, for messages.

    Errors of lower layers (configuration, feature gates, plugins) become an InputError as well.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if problems := [*_problems(function, forms, args, kwargs)]:
                raise InputError(problems)
            try:
                return function(*args, **kwargs)
            except ConfigError as error:
                raise InputError(
                    [Problem("", str(problem), where="configuration") for problem in error.problems]
                ) from None
            except (GateError, RegistryError) as error:
                raise InputError(str(error)) from None

        asked.__signature__ = _annotated(function)[0]  # type: ignore[attr-defined]
        return asked  # type: ignore[return-value]

    return decorate


def at_least_one(name: str, number: int | None) -> None:
    """Raises InputError for a number below 1."""
    if number is not None and number < 1:
        raise InputError([Problem(name, show(number), "at least 1")])


def _problems(
    function: Callable[..., Any], forms: Mapping[str, str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterable[Problem]:
    """A problem for each argument that is not what its annotation says. An unknown argument is a TypeError, as in Python."""
    signature, hints = _annotated(function)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for each in value if is_many else [value]:
            if name in hints and not fits(each, hints[name]):
                yield Problem(name, show(each), forms[name])


@cache
def _annotated(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature and the types of the arguments. Options that a TypedDict has (`Unpack`) are arguments like the others."""
    signature, hints = inspect.signature(function), get_type_hints(function)
    named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    for unpacked in signature.parameters.keys() - {each.name for each in named}:
        options = get_type_hints(*get_args(hints.pop(unpacked)))
        named += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in options]
        hints |= options
    return signature.replace(parameters=named), hints


def fits(value: object, hint: Any) -> bool:
    """Whether a value has the type of an annotation. Items of iterators are not looked at: that would use them up."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is type:
        return isinstance(value, type) and any(issubclass(value, get_origin(part) or part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if origin is not None and issubclass(origin, Iterable):
        return _lists(value, parts[0], is_sized=issubclass(origin, Sequence))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, _NUMBERS.get(hint, origin or hint))


def _lists(value: object, item: Any, is_sized: bool) -> bool:
    """Whether a value has several items. A text and a dictionary have some as well, but are never meant."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if not hasattr(value, "__len__"):
        return not is_sized
    return all(fits(each, item) for each in value)


FILE = "the name of a file"
CONFIG = "the name of a file, or a KubeSchedulerConfiguration as a dictionary"
OBJECTS = "the name of a file or folder, a Kubernetes object as a dictionary, or a list of them"
PRICE_FILE = "the name of a file, or a dictionary of prices"
PRICE_UNIT = "text, such as EUR"
POD_FILE = "the name of a file, or a Pod or workload as a dictionary"
PLUGINS = "a list of plugin classes"
POD = "the name of a pod: name or namespace/name"
TIMED: Mapping[str, str] = {
    "arrivals": "the name of a file, or a list of arrivals as dictionaries",
    "generate": "the name of a file, or a plan as a dictionary",
    "until": "seconds, or a duration such as 90s, 15m, 24h",
}
SIMULATED: Mapping[str, str] = {"explain": f"{POD}; or a list of them", "story": POD, **TIMED}
"""Descriptions of valid arguments, for messages."""

__all__ = ["ArrivalsError", "InputError", "QuestionedCluster", "load", "simulate", "study"]


class TimedOptions(TypedDict, total=False):
    """Pods that arrive over time, and when that ends."""

    arrivals: Source | Sequence[Written] | None
    generate: Source | Written | None
    until: float | str | None


class ToldOptions(TypedDict, total=False):
    """The options that all forms of `simulate` have."""

    story: str | None
    until: float | str | None


class CompareOptions(TimedOptions, total=False):
    """The load of the runs of a comparison, what nodes cost, and how the runs are made."""

    prices: Source | Mapping[str, float] | None
    processes: int | None
    dask: str | None
    results: Source | None


class StudyOptions(TypedDict, total=False):
    """How the runs of a study are made, and where their results go."""

    processes: int | None
    dask: str | None
    results: Source | None
    retry_failed: bool
    bound: bool


class QuestionedCluster:
    """A cluster to ask about. Questions try what they need on copies: the cluster stays as it was loaded."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self.loaded = loaded

    def __repr__(self) -> str:
        pods, pending = self.loaded.pods(), self.loaded.pending()
        nodes = sum(isinstance(item, Node) for item in self.loaded.objects)
        return f"<mooring cluster: {count(nodes, 'node')}, {count(len(pods), 'pod')}, {len(pending)} of them pending>"

    def settle(self) -> "QuestionedCluster":
        """The cluster after its scheduler has placed the pending pods, as far as they fit."""
        return QuestionedCluster(settled(self.loaded))

    @asks(
        pod="a name: a pod, a workload (deployment/name) or a pod group (podgroup/name); or None for all pending pods",
        cures="True or False",
        decisions="a whole number",
    )
    def explain(
        self, pod: str | None = None, *, cures: bool = True, decisions: int = DECISIONS
    ) -> PodExplanation | WorkloadExplanation | GroupExplanation | PendingExplanation:
        """Why a pod (`name`, `namespace/name`), a workload (`deployment/name`) or a pod group (`podgroup/name`) is where it
        is, and what would place it. Without a name: all pending pods by owner and by reason."""
        at_least_one("decisions", decisions)
        if pod is None:
            return explain_pending(self.loaded, cures=cures, decisions=decisions)
        return explain_named(self.loaded, pod, cures=cures, decisions=decisions)

    @asks(
        changes='a pair of a change and its value, such as ("drain", "node-1")',
        prices=PRICE_FILE,
        price_unit=PRICE_UNIT,
    )
    def what_if(
        self, *changes: Change, prices: Source | Mapping[str, float] | None = None, price_unit: str = ""
    ) -> WhatIf:
        """The difference that changes make, in their order: `what_if(("drain", "node-1"), ("scale", "deployment/web=9"))`.

        A change is (name, value) as the options of `mooring what-if` have them: drain, cordon, uncordon, remove-nodes,
        add-nodes, scale, apply, delete, config, taint, label. Manifests may be files or dictionaries. `prices` an hour are a
        file, or a dictionary by instance type or name of a node; without them labels of nodes tell. Raises InputError.
        """
        return what_if(self.loaded, changes, prices=prices_in(price_unit, prices))

    @asks(
        pod=f"{POD_FILE}; or a pair of it and a number",
        mix=f"a list of pods, each of which is {POD_FILE}",
        most="a whole number",
        gang="a whole number",
        preempt="True or False",
    )
    def capacity(
        self,
        pod: PodFile | tuple[PodFile, int],
        *,
        mix: Sequence[PodFile | tuple[PodFile, int]] = (),
        most: int | None = None,
        gang: int | None = None,
        preempt: bool = False,
    ) -> Capacity:
        """How many more of a pod fit, where, and what stops the next one. Raises InputError.

        `pod` is a manifest, as a file or a dictionary; with `mix` several are taken in turn, in proportion. `gang` counts
        whole gangs of so many pods, as does a manifest with a PodGroup that the pod names. `preempt` also counts pods that
        fit by evicting pods of lower priority, and lists the victims.
        """
        return capacity(self.loaded, pod, mix=mix, most=most, gang=gang, preempt=preempt)

    @asks(
        offers="the name of a file, or a list of offers as dictionaries",
        apply=f"a list, each item of which is {OBJECTS}",
        shrink="True or False",
        at_once="True or False",
        **TIMED,
    )
    def plan(
        self,
        offers: Offered | None = None,
        *,
        apply: Sequence[Objects] = (),
        arrivals: Source | Sequence[Written] | None = None,
        shrink: bool = False,
        at_once: bool = False,
    ) -> Plan:
        """Which nodes to add at least cost so that everything fits: in steps, or in a way that fits also if all come
        `at_once`; with `shrink`, which nodes can go. Raises InputError."""
        return plan(self.loaded, offers, apply=apply, arrivals=arrivals, shrink=shrink, at_once=at_once)

    @asks(**SIMULATED)
    def simulate(
        self, explain: str | Sequence[str] | None = None, *, story: str | None = None, **timed: Unpack[TimedOptions]
    ) -> SimulationAnswer | DayAnswer:
        """Place all pending pods, or let pods arrive over time; `mooring.simulate` says what the arguments mean."""
        return _simulated(self.loaded, explain, story, **timed)

    @asks(
        configs=f"a list of configurations, each of which is {CONFIG}; or a dictionary of them",
        vary="a dictionary of fields and lists of values",
        prices=PRICE_FILE,
        price_unit=PRICE_UNIT,
        processes="a whole number",
        dask="the address of a Dask scheduler",
        results=FILE,
        **TIMED,
    )
    def compare(
        self,
        configs: Configs = (),
        *,
        vary: Mapping[str, Sequence[Any]] | None = None,
        **options: Unpack[CompareOptions],
    ) -> Comparison:
        """The cluster under several configurations, seeds and loads, side by side.

        `configs` are files or dictionaries, with names if they are in a dictionary; "default" is the built-in configuration
        and "cluster", which counts if none is named, that of the cluster. `vary` has lists of values for fields of the
        configuration, named by their path (`{"percentageOfNodesToScore": [10, 100]}`), for `seed` (which node is taken among
        equals) and for `load` (how many pods arrive, as a multiple); every combination is a run.

        `arrivals` and `generate` are as in `mooring.simulate`; without them all pending pods arrive at once. `prices` an hour
        are by instance type or node. `processes` is how many processes make the runs (None: one for each core if that is
        worth it), `dask` the address of a Dask cluster that makes them. `results` is a file, CSV or Parquet, that gets a row
        for each run; runs that it has are not made again. Raises InputError.
        """
        at_least_one("processes", options.get("processes"))
        return compare(self.loaded, configs, vary=vary, **options)


@asks(
    objects=OBJECTS,
    config=CONFIG,
    plugins=PLUGINS,
    kubeconfig=FILE,
    context="the name of a context",
    feature_gates="a dictionary of names and True or False",
)
def load(
    objects: Objects | None = None,
    config: Config | None = None,
    plugins: Plugins = (),
    *,
    kubeconfig: Source | None = None,
    context: str = "",
    feature_gates: Gates | None = None,
) -> QuestionedCluster:
    """A cluster to ask questions about.

    `objects` is a file or folder of manifests or dumps, several of them, or Kubernetes objects as dictionaries. Without it,
    the live cluster of `kubeconfig` and `context`, or the one that kubectl would use; nothing is written to it. `config` is
    a KubeSchedulerConfiguration, as a file or as a dictionary (a snapshot has its own). `plugins` are registered beside
    those of Mooring, for a `config` that enables them. `feature_gates` are by name; the others have upstream's default.

    Raises InputError with every problem of the objects, the configuration, the feature gates and the plugins, or with the
    reason why the live cluster cannot be read.
    """
    if objects is not None:
        return QuestionedCluster(load_cluster(objects, config, plugins, feature_gates, with_files))
    from mooring.inputs.live_source import load_live  # Hot: the client of the API takes 0.1 s to import

    return QuestionedCluster(load_live(kubeconfig, context, config, plugins, feature_gates))


@overload
def simulate(
    objects: Objects,
    config: Config | None = None,
    explain: str | Sequence[str] | None = None,
    plugins: Plugins = (),
    *,
    arrivals: None = None,
    generate: None = None,
    **told: Unpack[ToldOptions],
) -> SimulationAnswer: ...


@overload
def simulate(
    objects: Objects,
    config: Config | None = None,
    explain: None = None,
    plugins: Plugins = (),
    *,
    arrivals: Source | Sequence[Written],
    generate: None = None,
    **told: Unpack[ToldOptions],
) -> DayAnswer: ...


@overload
def simulate(
    objects: Objects = (),
    config: Config | None = None,
    explain: None = None,
    plugins: Plugins = (),
    *,
    arrivals: None = None,
    generate: Source | Written,
    **told: Unpack[ToldOptions],
) -> DayAnswer: ...


@asks(objects=OBJECTS, config=CONFIG, plugins=PLUGINS, **SIMULATED)
def simulate(
    objects: Objects = (),
    config: Config | None = None,
    explain: str | Sequence[str] | None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    **timed: Unpack[TimedOptions],
) -> SimulationAnswer | DayAnswer:
    """Place all pending pods of a cluster and report where each went; or let pods arrive over time.

    `objects` is a file or folder of manifests, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary. `explain` names pods to be explained node by node, `story`
    one whose story is to be told. `plugins` are registered beside those of Mooring, for a `config` that enables them.

    `arrivals` is a file, or a list of entries as such a file has them (docs/simulation.md); the report is then one of
    waiting times and utilisation. `generate` is a plan of a generated day, as a file or as a dictionary of its form; such a
    report names no pods. `until` ends the simulation: seconds of the simulated clock, or a duration ("24h").

    Raises InputError with every problem of the objects, the arrivals (ArrivalsError, which is an InputError), the plan, the
    configuration and the arguments, and for a pod that is not there.
    """
    return _simulated(load_cluster(objects, config, plugins, apply=with_files), explain, story, **timed)


@asks(
    study="the name of a file, or a study as a dictionary",
    parameters="a dictionary of values by name",
    only="a dictionary of lists of values by name",
    processes="a whole number",
    dask="the address of a Dask scheduler",
    results=FILE,
    retry_failed="True or False",
)
def study(
    study: Source | Written,
    *,
    parameters: Mapping[str, Any] | None = None,
    only: Mapping[str, Sequence[Any]] | None = None,
    **how: Unpack[StudyOptions],
) -> StudyAnswer:
    """Make the runs of a study: every cluster with every workload under every configuration, with every seed and load.

    `study` is a file (docs/laboratory.md), or a dictionary of its form. `parameters` are values of its parameters. `only`
    chooses runs: `{"workload": ["default"], "seed": [1, 2]}`. `results` is a file (.csv or .parquet) that gets a row for each
    run; runs that it has are not made again, and those that failed only with `retry_failed`. `processes` is how many
    processes to use, `dask` the address of a Dask scheduler instead. `bound` adds the policy Optimal for pods that arrive one
    by one: the most of each `allocated` resource that any placement could reach, or an amount above it (needs SciPy).

    A run that fails ends no other: `failures` of the answer has them. `to_frame()` has a row for each run, and
    `to_frame("summaries")` means, standard deviations and differences to the first configuration.

    Raises InputError with every problem of the study, its files, configurations and plugins.
    """
    at_least_one("processes", how.get("processes"))
    chosen = {name: [str(value) for value in values] for name, values in (only or {}).items()}
    return run_study(study, parameters=parameters, only=chosen, **how)


def _simulated(
    cluster: LoadedCluster, explain: str | Sequence[str] | None, story: str | None, **timed: Unpack[TimedOptions]
) -> SimulationAnswer | DayAnswer:
    end_ns = until_ns(timed.get("until"))
    arrivals, generate = timed.get("arrivals"), timed.get("generate")
    _check_use(explain, arrivals, generate)
    if generate is not None:
        return run_day(cluster, GeneratedLoad(read_load_plan(generate), cluster.objects), story=story, until_ns=end_ns)
    if arrivals is not None:
        return run_day(cluster, read_arrivals(arrivals, cluster.objects, cluster.gates), story=story, until_ns=end_ns)
    return place_pending(cluster, explain, story=story, until_ns=end_ns)


def _check_use(explain: object, arrivals: object, generate: object) -> None:
    if arrivals is not None and generate is not None:
        raise InputError("generate: cannot be used with arrivals; choose one of the two")
    over_time = "arrivals" if arrivals is not None else "generate" if generate is not None else ""
    if over_time and explain is not None:
        raise InputError(f"explain: cannot be used with {over_time}; story shows what happened to a pod")
