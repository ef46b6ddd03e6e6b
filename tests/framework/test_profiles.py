"""Building profiles: the order of execution, weights, and every reason to refuse, with plugins made for the purpose."""

from typing import Any

import pytest

from mooring.framework.config import ConfigError, from_object
from mooring.framework.config.types import KubeSchedulerConfiguration, PluginConfig
from mooring.framework.contract.group_points import GROUP_POINTS
from mooring.framework.contract.points import POINTS, Handle, Plugin
from mooring.framework.profile.profiles import Profile, build_profiles
from mooring.framework.profile.registry import Registry

V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ALL = [{"name": "*"}]


def a_plugin(name: str, *points: str) -> type[Plugin]:
    """A class that extends these points and remembers what it was built with."""

    def build(self: Any, args: Any, handle: Handle) -> None:
        self.args, self.handle = args, handle
        if args == "bad":
            raise ValueError("bad arguments")

    bases = tuple({**POINTS, **GROUP_POINTS}[point] for point in points)
    made = type(name, bases, {"name": name, "__init__": build})
    made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return made


def a_registry() -> Registry:
    both = ("filter", "score")
    plugins = [a_plugin(name, *both) for name in ("A", "B", "C")]
    lone = [a_plugin("Filter", "filter"), a_plugin("NodeResourcesFit", "filter", "score", "placementScore")]
    lone += [a_plugin("Racks", "placementGenerate"), a_plugin("Rows", "placementGenerate")]
    sorters = [a_plugin("Sort", "queueSort"), a_plugin("Other", "queueSort"), a_plugin("Bind", "bind")]
    return Registry([*plugins, *lone, *sorters, a_plugin("Placer", "placementScore")])


def entries(text: str) -> list[dict[str, Any]]:
    """`A B*5` as it stands in a file."""
    parts = (name.partition("*") for name in text.split())
    return [{"name": name, "weight": int(weight)} if weight else {"name": name} for name, _, weight in parts]


def a_profile(name: str = "mine", multi: str = "Sort Bind A B", args: Any = None, **sets: Any) -> dict[str, Any]:
    """Without defaults: `multi` for all points; a set is written `A B*5`, or as in a file."""
    written = {point: {"enabled": entries(s)} if isinstance(s, str) else s for point, s in sets.items()}
    written["multiPoint"] = {"enabled": entries(multi), "disabled": ALL}
    configs = [{"name": plugin, "args": value} for plugin, value in (args or {}).items()]
    return {"schedulerName": name, "plugins": written, "pluginConfig": configs}


def a_config(*profiles: dict[str, Any], **fields: Any) -> KubeSchedulerConfiguration:
    return from_object({**V1, "profiles": list(profiles), **fields})


def build(*profiles: dict[str, Any], **fields: Any) -> dict[str, Profile]:
    return build_profiles(a_config(*profiles, **fields), a_registry())


def refusal(config: KubeSchedulerConfiguration, registry: Registry | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        build_profiles(config, registry or a_registry())
    assert refused.value.stage == "build"
    return str(refused.value)


ORDERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "multiPoint alone, in its order": ({"multi": "Sort B Bind A"}, "B A", "B*1 A*1"),
    "a plugin that a point enables again moves to the front there": ({"filter": "B"}, "B A", "A*1 B*1"),
    "several of them keep the order of the point": ({"filter": "B A"}, "B A", "A*1 B*1"),
    "disabled and enabled again it moves to the end": (
        {"multi": "Sort Bind A B C", "filter": {"enabled": entries("A"), "disabled": entries("A")}},
        "B C A",
        "A*1 B*1 C*1",
    ),
    "a plugin of the point alone comes last": ({"filter": "C"}, "A B C", "A*1 B*1"),
    "overrides, then multiPoint, then the rest": ({"filter": "C B"}, "B A C", "A*1 B*1"),
    "a star leaves the point's own": ({"filter": {"enabled": entries("C"), "disabled": ALL}}, "C", "A*1 B*1"),
    "a point can leave out a plugin": ({"score": {"disabled": entries("A")}}, "A B", "B*1"),
    "an unknown name can be disabled": ({"score": {"disabled": entries("Nope")}}, "A B", "A*1 B*1"),
    "a plugin is only where it extends the point": ({"multi": "Sort Bind Filter A"}, "Filter A", "A*1"),
    "weights of multiPoint": ({"multi": "Sort Bind A*3 B"}, "A B", "A*3 B*1"),
    "the point's weight wins": ({"multi": "Sort Bind A*3 B", "score": "A*7"}, "A B", "A*7 B*1"),
    "no weight at the point is 1 even then": ({"multi": "Sort Bind A*3 B", "score": "A"}, "A B", "A*1 B*1"),
    "weights at other points are ignored": ({"filter": "B*9"}, "B A", "A*1 B*1"),
    "a negative weight at the very end": ({"multi": "Sort Bind A*2 B*-2"}, "A B", "A*2 B*-2"),
}


@pytest.mark.parametrize(("written", "filters", "scores"), ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_execution(written: dict[str, Any], filters: str, scores: str) -> None:
    described = build(a_profile(**written))["mine"].describe()
    assert described.pop("filter") == filters.split()
    assert described.pop("score") == scores.split()
    assert described == {"queueSort": ["Sort"], "bind": ["Bind"]}


MINE = 'for profile with scheduler name "mine"'
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown plugin at a point": ({"score": "Nope"}, 'ScorePlugin "Nope" does not exist'),
    "an unknown plugin for all points": ({"multi": "Sort Bind Nope"}, 'PreFilterPlugin "Nope" does not exist'),
    "... is found at the first point that takes from there": (
        {"multi": "Sort Bind Nope", "preFilter": {"disabled": ALL}},
        'FilterPlugin "Nope" does not exist',
    ),
    "an unknown plugin for pod groups": ({"placementScore": "Nope"}, 'PlacementScorePlugin "Nope" does not exist'),
    "a plugin that does not extend the point": (
        {"score": "Filter"},
        'plugin "Filter" does not extend ScorePlugin plugin',
    ),
    "a plugin that has nothing for pod groups": (
        {"placementGenerate": "A"},
        'plugin "A" does not extend PlacementGeneratePlugin plugin',
    ),
    "listed twice at a point": ({"score": "C C"}, 'plugin "C" already registered as "ScorePlugin"'),
    "listed twice for all points": ({"multi": "Sort Bind A A"}, 'plugin "A" already registered as "FilterPlugin"'),
    "no queue sort": ({"multi": "Bind A"}, f"only one queue sort plugin required {MINE}, but got 0"),
    "two queue sorts": (
        {"multi": "Sort Bind", "queueSort": "Other"},
        f"only one queue sort plugin required {MINE}, but got 2",
    ),
    "nobody to bind": ({"multi": "Sort A"}, f"at least one bind plugin is needed {MINE}"),
    "arguments that a plugin refuses": ({"args": {"A": "bad"}}, 'initializing plugin "A": bad arguments'),
    "such arguments come before what the lists have wrong": (
        {"args": {"A": "bad"}, "score": "Nope"},
        'initializing plugin "A": bad arguments',
    ),
    "a negative weight before others": (
        {"multi": "Sort Bind A*-2 B"},
        "score plugins: total score of Score plugins could overflow",
    ),
    "a negative weight at the point, which is counted first": (
        {"multi": "Sort Bind A B", "score": {"enabled": entries("C*-1"), "disabled": entries("A B")}},
        "score plugins: total score of Score plugins could overflow",
    ),
    "a sum that falls below zero too early": (
        {"multi": "Sort Bind A B*-2 C"},
        "score plugins: total score of Score plugins could overflow",
    ),
    "listed twice for pod groups": (
        {"placementScore": "NodeResourcesFit NodeResourcesFit"},
        'plugin "NodeResourcesFit" already registered as "PlacementScorePlugin"',
    ),
    "two generators of placements": (
        {"placementGenerate": "Racks Rows"},
        f"at most one placement generate plugin is allowed {MINE}",
    ),
    "weights of placements that do not add up": (
        {"placementScore": "NodeResourcesFit*-1", "multi": "Sort Bind Placer"},
        "placement score plugins: total score of Score plugins could overflow",
    ),
}


@pytest.mark.parametrize(("written", "error"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_does_not_fit_is_refused(written: dict[str, Any], error: str) -> None:
    text = refusal(a_config(a_profile(**written)))
    assert text == f"initializing profiles: creating profile for scheduler name mine: {error}"


def test_repeated_arguments_are_refused_even_unvalidated() -> None:
    config = a_config(a_profile())
    config.profiles[0].plugin_config += [PluginConfig(name="A"), PluginConfig(name="A")]
    assert refusal(config).endswith("scheduler name mine: repeated config for plugin A")


def test_a_score_plugin_under_another_name_has_no_weight() -> None:
    registry = a_registry()
    registry.register_factory("Alias", a_plugin("Own", "score"))
    text = refusal(a_config(a_profile(score="Alias")), registry)
    assert text.endswith('score plugin "Own" is not configured with weight')


def test_a_placement_score_plugin_under_another_name_has_no_weight() -> None:
    registry = a_registry()
    registry.register_factory("Alias", a_plugin("Own", "placementScore"))
    text = refusal(a_config(a_profile(placementScore="Alias")), registry)
    assert text.endswith('placement score plugin "Own" is not configured with weight')


def test_placements_have_weights_of_their_own() -> None:
    written = a_profile(multi="Sort Bind A B Placer*4 Racks", placementScore="NodeResourcesFit*7", score="A*3")
    (profile,) = build_profiles(a_config(written), a_registry(), {"TopologyAwareWorkloadScheduling": True}).values()
    assert profile.placement_weights == {"Placer": 4, "NodeResourcesFit": 7}
    described = profile.describe()
    assert described["placementScore"] == ["Placer*4", "NodeResourcesFit*7"]
    assert described["placementGenerate"] == ["Racks"]
    (without,) = build(written).values()
    assert not {"placementGenerate", "placementScore"} & without.describe().keys()


def test_there_must_be_a_profile() -> None:
    config = a_config(a_profile())
    config.profiles = []
    assert refusal(config) == "at least one profile is required"


def test_profiles_must_have_names_of_their_own() -> None:
    config = a_config(a_profile("a"), a_profile("b"))
    config.profiles[1].scheduler_name = "a"
    assert refusal(config) == 'initializing profiles: duplicate profile with scheduler name "a"'
    config.profiles[0].scheduler_name = ""
    assert refusal(config) == "initializing profiles: scheduler name is needed"


def test_profiles_must_order_the_queue_alike() -> None:
    differing = a_config(a_profile("a"), a_profile("b", multi="Other Bind"))
    text = 'initializing profiles: different queue sort plugins for profile "b": "Other", first: "Sort"'
    assert refusal(differing) == text
    differing = a_config(a_profile("a", args={"Sort": {"x": 1}}), a_profile("b", args={"Sort": {"x": 2}}))
    assert refusal(differing) == 'initializing profiles: different queue sort plugin args for profile "b"'
    alike = build(a_profile("a", args={"Sort": {"x": 1}}), a_profile("b", args={"Sort": {"x": 1}}))
    assert list(alike) == ["a", "b"]


def test_the_largest_weights_fit() -> None:
    (profile,) = build(a_profile(multi="Sort Bind A*2147483647 B*2147483647")).values()
    assert profile.weights == {"A": 2147483647, "B": 2147483647}


def test_a_plugin_is_built_once_and_shared_by_its_points() -> None:
    first, second = build(a_profile("a", args={"A": {"x": 1}}), a_profile("b")).values()
    assert first.plugin("A") is first.filters[0]
    assert first.plugin("A") is first.scores[0]
    assert first.plugin("A") is not second.plugin("A")
    assert first.plugin("C") is None
    built = first.plugin("A")
    assert getattr(built, "args") == {"x": 1}  # noqa: B009
    assert getattr(built, "handle").profile_name == "a"  # noqa: B009


def test_a_plugin_is_built_even_where_all_its_points_leave_it_out() -> None:
    off = {"disabled": entries("A")}
    (profile,) = build(a_profile(filter=off, score=off)).values()
    assert profile.plugin("A") is not None
    assert profile.describe()["filter"] == ["B"]
    assert profile.weights == {"B": 1}


def test_plugins_see_the_feature_gates() -> None:
    (profile,) = build_profiles(a_config(a_profile()), a_registry(), {"Mine": True}).values()
    gates = getattr(profile.plugin("A"), "handle").feature_gates  # noqa: B009
    assert (gates["Mine"], gates["GenericWorkload"]) == (True, False)


def test_a_profile_may_look_at_fewer_nodes_than_the_others() -> None:
    own = {**a_profile("own"), "percentageOfNodesToScore": 5}
    built = build(own, a_profile("other"), percentageOfNodesToScore=30)
    assert [profile.percentage_of_nodes_to_score for profile in built.values()] == [5, 30]


# ---- Resources that extenders manage


def managing(*names: str, ignored: bool = True) -> list[dict[str, Any]]:
    return [{"managedResources": [{"name": name, "ignoredByScheduler": ignored} for name in names]}]


def test_what_extenders_manage_replaces_what_fit_ignores() -> None:
    fit = a_profile(multi="Sort Bind NodeResourcesFit", args={"NodeResourcesFit": {"ignoredResources": ["a.com/x"]}})
    config = a_config(fit, extenders=managing("b.com/y", "c.com/z"))
    (profile,) = build_profiles(config, a_registry()).values()
    args = getattr(profile.plugin("NodeResourcesFit"), "args")  # noqa: B009
    assert args.ignored_resources == ["b.com/y", "c.com/z"]
    assert config.profiles[0].args_of("NodeResourcesFit").ignored_resources == ["a.com/x"], (
        "the configuration is unchanged"
    )


def test_what_extenders_do_not_ask_to_ignore_changes_nothing() -> None:
    (profile,) = build(a_profile(), extenders=managing("b.com/y", ignored=False)).values()
    assert profile.plugin("A") is not None


def test_ignored_resources_need_fit() -> None:
    config = a_config(a_profile(), extenders=managing("b.com/y"))
    assert refusal(config) == "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    config.profiles[0].plugin_config.append(PluginConfig(name="NodeResourcesFit", args=None))
    text = "couldn't build extenders: want args to be of type NodeResourcesFitArgs, got NoneType"
    assert refusal(config) == text
