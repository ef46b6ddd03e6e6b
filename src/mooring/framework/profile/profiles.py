"""Profiles: which plugins run at which extension point, in which order, with which weight.

A configuration lists plugins in sets; building a profile turns the sets into plugin objects, each made once and shared
by its points. Whatever does not fit is refused with upstream's text.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, NoReturn

import msgspec

from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.framework.config.args import NodeResourcesFitArgs
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.problems import ConfigError, show
from mooring.framework.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
)
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import (
    GROUP_POINTS,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)
from mooring.framework.contract.points import (
    POINTS,
    BindPlugin,
    Codes,
    FilterPlugin,
    Handle,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Rows,
    SchedulerServices,
    ScorePlugin,
    Scores,
)
from mooring.framework.contract.status import PluginError, Rejection, describe
from mooring.framework.profile.registry import Registry
from mooring.kit.metrics import MetricRegistry as MetricRegistry

# ---- Plugins at points that read what an earlier point of theirs writes, in profiles that disable the earlier point.
#
# Upstream's plugins then find nothing in the cycle state, and fail for every pod. Here many plugins write no state,
# because the shape of a pod has it. So a profile has an `Unprepared` there instead, which fails with upstream's
# words. It costs nothing in other profiles.


class Unprepared(FilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Stands for a plugin at one of these points, and fails there."""

    def __init__(self, plugin: Plugin, error: str) -> None:
        self.__dict__["name"] = plugin.name
        self._plugin = plugin
        self._error = error

    def _fail(self) -> NoReturn:
        raise PluginError(self._error)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        assert isinstance(self._plugin, FilterPlugin)
        codes = self._plugin.filter_before_state(context, rows)
        if codes is None or not codes.all():
            self._fail()
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        assert isinstance(self._plugin, FilterPlugin)
        return self._plugin.rejection(context, code)

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        self._fail()

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        self._fail()

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        """Nothing was reserved."""

    def pre_bind(self, context: SchedulingContext, node_name: str) -> None:
        self._fail()


def with_unprepared(points: Mapping[str, Sequence[Plugin]]) -> dict[str, tuple[Plugin, ...]]:
    """The plugins of each point, with an `Unprepared` for each of those that cannot do their work there."""
    names = {point: {plugin.name for plugin in plugins} for point, plugins in points.items()}
    return {point: tuple(_at(point, plugin, names) for plugin in plugins) for point, plugins in points.items()}


def _at(point: str, plugin: Plugin, names: Mapping[str, Collection[str]]) -> Plugin:
    for need in plugin.needs:
        if need.point == point and plugin.name not in names.get(need.earlier, ()):
            return Unprepared(plugin, need.error)
    return plugin


_MAX_INT64 = (1 << 63) - 1
"""Totals of scores must fit into upstream's int64."""
_FIT = "NodeResourcesFit"
_ALL_POINTS = {**POINTS, **GROUP_POINTS}


_ATTRIBUTES = {point: re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", point) + "s" for point in _ALL_POINTS}
"""Point -> the attribute of a profile that lists its plugins: `preFilter` -> `pre_filters`."""
_GATED_POINTS = {
    "placementGenerate": "TopologyAwareWorkloadScheduling",
    "placementScore": "TopologyAwareWorkloadScheduling",
    "podGroupPostFilter": "GenericWorkload",
}
"""Point -> the gate without which nothing asks its plugins."""


class _Refusal(ValueError):
    """Why a profile cannot be built. `build_profiles` adds the name of the profile."""


@dataclass
class Profile:
    """A way of scheduling that pods choose by `spec.schedulerName`."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    """0 or None: every node (scheduler/decide.py)."""
    points: InitVar[Mapping[str, Sequence[Plugin]]]
    """Point (as the configuration calls it) -> its plugins in order of execution. Each must extend its point."""
    weights: dict[str, int] = field(default_factory=dict)
    """Score plugin -> what its scores are multiplied with."""
    plugins: dict[str, Plugin] = field(default_factory=dict)
    """All plugins that were made, also those that all their points disable."""
    args: dict[str, Any] = field(default_factory=dict)
    """The arguments of plugins that have any, by name."""
    placement_weights: dict[str, int] = field(default_factory=dict)
    """PlacementScore plugin -> what its scores are multiplied with."""
    unasked: frozenset[str] = frozenset(_GATED_POINTS)
    """Points whose plugins nothing asks, because the gate of the point is off."""
    pre_enqueues: tuple[PreEnqueuePlugin, ...] = field(init=False)
    queue_sorts: tuple[QueueSortPlugin, ...] = field(init=False)
    pre_filters: tuple[PreFilterPlugin, ...] = field(init=False)
    filters: tuple[FilterPlugin, ...] = field(init=False)
    post_filters: tuple[PostFilterPlugin, ...] = field(init=False)
    pre_scores: tuple[PreScorePlugin, ...] = field(init=False)
    scores: tuple[ScorePlugin, ...] = field(init=False)
    reserves: tuple[ReservePlugin, ...] = field(init=False)
    permits: tuple[PermitPlugin, ...] = field(init=False)
    pre_binds: tuple[PreBindPlugin, ...] = field(init=False)
    binds: tuple[BindPlugin, ...] = field(init=False)
    post_binds: tuple[PostBindPlugin, ...] = field(init=False)
    placement_feasibles: tuple[PlacementFeasiblePlugin, ...] = field(init=False)
    placement_generates: tuple[PlacementGeneratePlugin, ...] = field(init=False)
    placement_scores: tuple[PlacementScorePlugin, ...] = field(init=False)
    pod_group_post_filters: tuple[PodGroupPostFilterPlugin, ...] = field(init=False)

    def __post_init__(self, points: Mapping[str, Sequence[Plugin]]) -> None:
        """Distribute the plugins over the typed attributes, so that no code has to look points up by name."""
        for listed in points.values():
            for plugin in listed:
                self.plugins.setdefault(plugin.name, plugin)
        prepared = with_unprepared(points)
        for point, attribute in _ATTRIBUTES.items():
            listed = prepared.get(point, ())
            assert all(isinstance(plugin, _ALL_POINTS[point]) for plugin in listed), f"{listed} at {point}"
            setattr(self, attribute, listed)
        made = self.plugins.values()
        self.placement_feasibles = tuple(each for each in made if isinstance(each, PlacementFeasiblePlugin))

    @property
    def tries_placements(self) -> bool:
        """Whether pod groups are tried in placements."""
        return "placementGenerate" not in self.unasked

    def plugin(self, name: str) -> Plugin | None:
        """By its name; None if no extension point enables it."""
        return self.plugins.get(name)

    def describe(self) -> dict[str, list[str]]:
        """Point -> plugin names, `Name*weight` where they score; points without plugins are left out, and so are those that
        nothing asks."""
        asked = {point: attribute for point, attribute in _ATTRIBUTES.items() if point not in self.unasked}
        listed = {point: getattr(self, attribute) for point, attribute in asked.items()}
        described = {point: [plugin.name for plugin in plugins] for point, plugins in listed.items() if plugins}
        for point, weights in (("score", self.weights), ("placementScore", self.placement_weights)):
            if point in described:
                described[point] = [f"{name}*{weights[name]}" for name in described[point]]
        return described


def build_profiles(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    feature_gates: Mapping[str, bool] | None = None,
    services: SchedulerServices | None = None,
    metrics: MetricRegistry | None = None,
) -> dict[str, Profile]:
    """The profiles of a validated configuration by scheduler name; raises ConfigError(stage="build")."""
    handle = Handle("", with_defaults(feature_gates), services or SchedulerServices(), metrics or MetricRegistry())
    built: dict[str, Profile] = {}
    first: KubeSchedulerProfile | None = None
    for written in _with_ignored_resources(config):
        name = written.scheduler_name or ""
        try:
            profile = _build(written, registry, msgspec.structs.replace(handle, profile_name=name))
        except _Refusal as why:
            raise _error(f"initializing profiles: creating profile for scheduler name {name}: {why}") from why.__cause__
        if profile.percentage_of_nodes_to_score is None:
            profile.percentage_of_nodes_to_score = config.percentage_of_nodes_to_score
        first = first or written
        _check_beside_others(written, profile, built, first)
        built[name] = profile
    if not built:
        raise _error("at least one profile is required")
    return built


def _error(text: str) -> ConfigError:
    """A ConfigError of the stage "build"."""
    return ConfigError("build", [text])


# ---- Settings that are common to all profiles


def _with_ignored_resources(config: KubeSchedulerConfiguration) -> list[KubeSchedulerProfile]:
    """Resources that an extender manages with ignoredByScheduler must not be checked by NodeResourcesFit as well.

    Parity: their names replace `ignoredResources` of every profile, they are not added to it.
    """
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    return [_ignoring(ignored, profile) for profile in config.profiles] if ignored else config.profiles


def _ignoring(names: list[str], profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Copy of the profile in which NodeResourcesFit ignores the resources that extenders manage. Raises with upstream's text
    if the profile has no arguments of NodeResourcesFit."""
    index = next((i for i, written in enumerate(profile.plugin_config) if written.name == _FIT), None)
    if index is None:
        raise _error("couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")
    args = profile.plugin_config[index].args
    if not isinstance(args, NodeResourcesFitArgs):
        got = type(args).__name__
        raise _error(f"couldn't build extenders: want args to be of type NodeResourcesFitArgs, got {got}")
    changed = list(profile.plugin_config)
    changed[index] = PluginConfig(name=_FIT, args=msgspec.structs.replace(args, ignored_resources=names))
    return msgspec.structs.replace(profile, plugin_config=changed)


def _check_beside_others(
    written: KubeSchedulerProfile, profile: Profile, built: Mapping[str, Profile], first: KubeSchedulerProfile
) -> None:
    """A profile needs a name of its own, and the queue sort of the first profile: all profiles share one queue."""
    name = profile.scheduler_name
    if not name:
        raise _error("initializing profiles: scheduler name is needed")
    if name in built:
        raise _error(f"initializing profiles: duplicate profile with scheduler name {show(name)}")
    if not built:
        return
    (sorter,), (first_sorter,) = profile.queue_sorts, next(iter(built.values())).queue_sorts
    if sorter.name != first_sorter.name:
        raise _error(
            f"initializing profiles: different queue sort plugins for profile {show(name)}: "
            f"{show(sorter.name)}, first: {show(first_sorter.name)}"
        )
    if show(written.args_of(sorter.name)) != show(first.args_of(sorter.name)):
        raise _error(f"initializing profiles: different queue sort plugin args for profile {show(name)}")


# ---- One profile


def _build(written: KubeSchedulerProfile, registry: Registry, handle: Handle) -> Profile:
    """Upstream's order of steps: it decides which of several faults is reported."""
    name, sets = handle.profile_name, written.plugins
    made = _make_plugins(written, registry, handle)
    listed = {point: _listed(point, plugin_set, made) for point, plugin_set in _by_build_order(sets)}
    if sets.multi_point.enabled:
        for point, plugin_set in _by_build_order(sets):
            listed[point] = _expand(point, plugin_set, sets.multi_point, made)
    _check_counts(name, listed)
    points = {point: tuple(made[plugin] for plugin in listed[point]) for point in _ALL_POINTS}
    return Profile(
        name,
        written.percentage_of_nodes_to_score,
        points,
        _weights("score", sets, made, points["score"]),
        made,
        args={config.name: config.args for config in written.plugin_config},
        placement_weights=_weights("placementScore", sets, made, points["placementScore"]),
        unasked=frozenset(p for p, gate in _GATED_POINTS.items() if not handle.feature_gates.get(gate, False)),
    )


def _by_build_order(sets: Plugins) -> list[tuple[str, PluginSet]]:
    """Extension points in the order in which upstream builds them."""
    by_point = sets.by_point()
    return [(point, by_point[point]) for point in _ALL_POINTS]


def _make_plugins(written: KubeSchedulerProfile, registry: Registry, handle: Handle) -> dict[str, Plugin]:
    """Build every plugin that some set enables. Names that are not registered are left out here: `_found` reports
    them with the extension point that lists them."""
    args: dict[str, Any] = {}
    for config in written.plugin_config:
        if config.name in args:
            raise _Refusal(f"repeated config for plugin {config.name}")
        args[config.name] = config.args
    needed = written.plugins.enabled_names()
    made = {}
    for name, factory in registry.items():
        if name in needed:
            try:
                made[name] = factory(args.get(name), handle)
            except ValueError as error:
                raise _Refusal(f"initializing plugin {show(name)}: {error}") from error
            except Exception as error:  # a plugin may raise anything, and the user must learn whose it is
                raise _Refusal(f"initializing plugin {show(name)}: {describe(error)}") from error
    return made


def _type_name(point: str) -> str:
    """Upstream's name of the interface of an extension point, such as `PreFilterPlugin`."""
    return f"{point[0].upper()}{point[1:]}Plugin"


def _found(point: str, name: str, made: Mapping[str, Plugin]) -> Plugin:
    """The plugin of this name; refuses names that are not registered."""
    if name not in made:
        raise _Refusal(f"{_type_name(point)} {show(name)} does not exist")
    return made[name]


def _listed(point: str, plugin_set: PluginSet, made: Mapping[str, Plugin]) -> list[str]:
    """The names that the point's own set enables, all of them fit to be there."""
    names: list[str] = []
    for entry in plugin_set.enabled:
        if not isinstance(_found(point, entry.name, made), _ALL_POINTS[point]):
            raise _Refusal(f"plugin {show(entry.name)} does not extend {_type_name(point)} plugin")
        _add_once(names, entry.name, point)
    return names


def _add_once(names: list[str], name: str, point: str) -> None:
    """Add a name, unless the extension point has it already: upstream refuses that."""
    if name in names:
        raise _Refusal(f"plugin {show(name)} already registered as {show(_type_name(point))}")
    names.append(name)


def _expand(point: str, plugin_set: PluginSet, multi_point: PluginSet, made: Mapping[str, Plugin]) -> list[str]:
    """The order of execution at a point, from its own set and from the one for all points.

    | own set | disabled | multiPoint | result  |
    | C A     |          | A B        | A B C   |
    | A       | A        | A B        | B A     |
    | C       | *        | A B        | C       |
    """
    own = [entry.name for entry in plugin_set.enabled]
    if plugin_set.disables("*"):
        return own
    overridden: set[str] = set()
    added: list[str] = []
    for entry in multi_point.enabled:
        extends = isinstance(_found(point, entry.name, made), _ALL_POINTS[point])
        if not extends or plugin_set.disables(entry.name):
            continue
        if entry.name in own:
            overridden.add(entry.name)
        else:
            _add_once(added, entry.name, point)
    front = [name for name in own if name in overridden]
    back = [name for name in own if name not in overridden]
    return front + added + back


def _check_counts(scheduler_name: str, listed: Mapping[str, list[str]]) -> None:
    """Exactly one QueueSort, at least one Bind, and at most one PlacementGenerate plugin, as upstream."""
    where = f"for profile with scheduler name {show(scheduler_name)}"
    sorters = len(listed["queueSort"])
    if sorters != 1:
        raise _Refusal(f"only one queue sort plugin required {where}, but got {sorters}")
    if not listed["bind"]:
        raise _Refusal(f"at least one bind plugin is needed {where}")
    if len(listed["placementGenerate"]) > 1:
        raise _Refusal(f"at most one placement generate plugin is allowed {where}")


# ---- Weights


_SCORING = {"score": "score", "placementScore": "placement score"}
"""Point with weights -> upstream's word for its plugins."""


def _weights(point: str, sets: Plugins, made: Mapping[str, Plugin], scorers: tuple[Plugin, ...]) -> dict[str, int]:
    """The weights of the plugins that score, by name. Entries of plugins that no longer score still count in the
    check for overflow."""
    weights = _listed_weights(point, (*sets.by_point()[point].enabled, *sets.multi_point.enabled), made)
    for plugin in scorers:
        if plugin.name not in weights:  # it was registered under another name than its own
            raise _Refusal(f"{_SCORING[point]} plugin {show(plugin.name)} is not configured with weight")
    return {plugin.name: weights[plugin.name] for plugin in scorers}


def _listed_weights(point: str, entries: Iterable[PluginEntry], made: Mapping[str, Plugin]) -> dict[str, int]:
    """The first entry of a name counts: the point's own set stands before multiPoint. 0 is 1.

    Parity: upstream asks whether a weight still fits under the largest int64 less the sum so far. That difference wraps
    when the sum is negative, so a negative weight is refused unless the sum never falls below zero before the last one.
    """
    weights: dict[str, int] = {}
    total = 0
    for entry in entries:
        if entry.name in weights or not isinstance(made.get(entry.name), _ALL_POINTS[point]):
            continue
        weights[entry.name] = weight = entry.weight or 1
        if total < 0 or weight * MAX_SCORE > _MAX_INT64 - total:
            raise _Refusal(f"{_SCORING[point]} plugins: total score of Score plugins could overflow")
        total += weight * MAX_SCORE
    return weights
