"""Paths into a configuration: which lead somewhere, and what is said about the others."""

from typing import Any

import pytest

from mooring.answers.experiments.run_plan import UnknownPath, with_value
from mooring.framework import config as configuration
from mooring.framework.config.settings import as_object

DEFAULT = as_object(configuration.default())
FIT = "profiles.0.pluginConfig.NodeResourcesFit"


def changed(path: str, value: Any) -> Any:
    """The profile of a configuration that is changed and read again."""
    return configuration.from_object(with_value(DEFAULT, path, value))


def test_a_field_of_the_configuration_itself() -> None:
    assert changed("percentageOfNodesToScore", 30).percentage_of_nodes_to_score == 30


def test_arguments_of_a_plugin_follow_its_name() -> None:
    for path in (f"{FIT}.scoringStrategy.type", f"{FIT}.args.scoringStrategy.type"):
        args = changed(path, "MostAllocated").profiles[0].args_of("NodeResourcesFit")
        assert args.scoring_strategy.type == "MostAllocated"


def test_items_have_an_index_or_a_name_and_brackets_are_the_same() -> None:
    for path in (
        f"{FIT}.scoringStrategy.resources.memory.weight",
        f"{FIT}.scoringStrategy.resources.1.weight",
        "profiles[0].pluginConfig[NodeResourcesFit].scoringStrategy.resources[1].weight",
    ):
        args = changed(path, 7).profiles[0].args_of("NodeResourcesFit")
        assert [resource.weight for resource in args.scoring_strategy.resources] == [1, 7]


def test_a_name_may_have_dots() -> None:
    resources = [{"name": "example.com/gpu", "weight": 1}, {"name": "cpu", "weight": 1}]
    written = with_value(DEFAULT, f"{FIT}.scoringStrategy.resources", resources)
    again = with_value(written, f"{FIT}.scoringStrategy.resources.example.com/gpu.weight", 5)
    args = configuration.from_object(again).profiles[0].args_of("NodeResourcesFit")
    assert [(each.name, each.weight) for each in args.scoring_strategy.resources] == [
        ("example.com/gpu", 5),
        ("cpu", 1),
    ]


def test_a_field_that_is_not_written_can_be_set() -> None:
    assert changed("profiles.0.percentageOfNodesToScore", 50).profiles[0].percentage_of_nodes_to_score == 50
    shape = f"{FIT}.scoringStrategy.requestedToCapacityRatio.shape"
    args = changed(shape, [{"utilization": 0, "score": 10}]).profiles[0].args_of("NodeResourcesFit")
    assert args.scoring_strategy.requested_to_capacity_ratio.shape[0].score == 10


def test_the_weight_of_a_plugin() -> None:
    plugins = changed("profiles.0.plugins.multiPoint.enabled.ImageLocality.weight", 9).profiles[0].plugins
    assert [entry.weight for entry in plugins.multi_point.enabled if entry.name == "ImageLocality"] == [9]


def test_arguments_without_a_type_take_any_field() -> None:
    own = {"name": "Own", "args": {"depth": {"a": [1, {"b": 2}]}}}
    written = {**DEFAULT, "profiles": [{"pluginConfig": [own]}]}
    path = "profiles.0.pluginConfig.Own"
    assert (
        with_value(written, f"{path}.depth.a.1.b", 3)["profiles"][0]["pluginConfig"][0]["args"]["depth"]["a"][1]["b"]
        == 3
    )
    assert with_value(written, f"{path}.new", 3)["profiles"][0]["pluginConfig"][0]["args"]["new"] == 3


def test_the_original_stays_as_it_was() -> None:
    before = as_object(configuration.default())
    with_value(DEFAULT, f"{FIT}.scoringStrategy.type", "MostAllocated")
    assert before == DEFAULT


WRONG = {
    "a field that is nearly right": (
        "percentageOfNodeToScore",
        "percentageOfNodeToScore: unknown field 'percentageOfNodeToScore'; did you mean percentageOfNodesToScore?",
    ),
    "what can be varied beside fields": ("seeds", "seeds: unknown field 'seeds'; did you mean seed?"),
    "a field that is far off": (
        f"{FIT}.zzz",
        f"{FIT}.zzz: unknown field 'zzz'; the fields are apiVersion, kind, ignoredResources, ignoredResourceGroups, "
        "scoringStrategy",
    ),
    "a plugin that is nearly right": (
        "profiles.0.pluginConfig.NodeResourceFit.x",
        "profiles.0.pluginConfig.NodeResourceFit.x: no item 'NodeResourceFit' among 8; did you mean NodeResourcesFit?",
    ),
    "an index that is too high": ("profiles.1.plugins", "profiles.1.plugins: no item '1' among 1"),
    "an index of a thousand digits": (
        f"profiles.{'9' * 1000}.x",
        f"profiles.{'9' * 1000}.x: no item '{'9' * 1000}' among 1",
    ),
    "a field of a number": ("parallelism.x", "parallelism.x: 'parallelism' has no fields of its own"),
    "a field of a text that is not written": (
        f"{FIT}.ignoredResources.0.x",
        f"{FIT}.ignoredResources.0.x: no item '0' among 0",
    ),
    "nothing": ("", ": unknown field ''; the fields are apiVersion, kind, parallelism, "),
}


@pytest.mark.parametrize(("path", "expected"), WRONG.values(), ids=WRONG.keys())
def test_unknown_paths(path: str, expected: str) -> None:
    with pytest.raises(UnknownPath) as caught:
        with_value(DEFAULT, path, 1)
    assert str(caught.value).startswith(expected)
    assert str(caught.value) == expected or not path


# ---- places in lists, and what has no fields

PLUGIN = {"name": "Own"}


def with_plugins(*plugins: dict[str, Any]) -> dict[str, Any]:
    return {**DEFAULT, "profiles": [{"pluginConfig": [*plugins]}]}


def plugin_configs(written: dict[str, Any]) -> Any:
    return written["profiles"][0]["pluginConfig"]


def test_a_whole_item_or_a_whole_list_can_be_set() -> None:
    profile = {"schedulerName": "mine"}
    assert with_value(DEFAULT, "profiles.0", profile)["profiles"] == [profile]
    assert with_value(DEFAULT, "profiles", [profile])["profiles"] == [profile]


def test_the_name_and_all_arguments_of_a_plugin_can_be_set() -> None:
    path = "profiles.0.pluginConfig.Own"
    assert plugin_configs(with_value(with_plugins(PLUGIN), f"{path}.name", "Other")) == [{"name": "Other"}]
    assert plugin_configs(with_value(with_plugins(PLUGIN), f"{path}.args", {"a": 1})) == [{**PLUGIN, "args": {"a": 1}}]
    assert plugin_configs(with_value(with_plugins(PLUGIN), f"{path}.args.a", 1)) == [{**PLUGIN, "args": {"a": 1}}]
    assert plugin_configs(with_value(with_plugins(PLUGIN), f"{path}.a.b", 1)) == [{**PLUGIN, "args": {"a": {"b": 1}}}]


def test_items_of_untyped_lists_have_an_index_and_maybe_a_name() -> None:
    listed = {"name": "Own", "args": {"list": [1, {"x": 2}, {"name": "it", "x": 3}]}}
    path = "profiles.0.pluginConfig.Own.list"
    for step, expected in (
        ("0", [9, {"x": 2}, {"name": "it", "x": 3}]),
        ("1.x", [1, {"x": 9}, {"name": "it", "x": 3}]),
        ("it.x", [1, {"x": 2}, {"name": "it", "x": 9}]),
        ("2.x", [1, {"x": 2}, {"name": "it", "x": 9}]),
    ):
        (found,) = plugin_configs(with_value(with_plugins(listed), f"{path}.{step}", 9))
        assert found["args"]["list"] == expected, step
    (found,) = plugin_configs(with_value(with_plugins(listed), f"{path}[1][x]", 9))
    assert found["args"]["list"][1] == {"x": 9}


def test_the_longest_name_that_is_there_counts() -> None:
    dotted = [{"name": "a", "args": {}}, {"name": "a.b", "args": {}}]
    first, second = plugin_configs(with_value(with_plugins(*dotted), "profiles.0.pluginConfig.a.b.c", 1))
    assert (first["args"], second["args"]) == ({}, {"c": 1})


NOWHERE = {
    "a field of a number that is not written": (
        "profiles.0.percentageOfNodesToScore.x",
        "profiles.0.percentageOfNodesToScore.x: the field before 'x' has no fields of its own",
    ),
    "a field of an untyped number": (
        "profiles.0.pluginConfig.Own.depth.x",
        "profiles.0.pluginConfig.Own.depth.x: 'depth' has no fields of its own",
    ),
    "an index in other digits": (
        "profiles.\u0660.x",
        "profiles.\u0660.x: no item '\u0660' among 1",
    ),
    "an index below 0": ("profiles.-1.x", "profiles.-1.x: no item '-1' among 1"),
    "a name that is far off": (
        "profiles.0.pluginConfig.zzz.x",
        "profiles.0.pluginConfig.zzz.x: no item 'zzz' among 1; the names are Own",
    ),
}


@pytest.mark.parametrize(("path", "expected"), NOWHERE.values(), ids=NOWHERE.keys())
def test_paths_that_lead_nowhere(path: str, expected: str) -> None:
    with pytest.raises(UnknownPath) as caught:
        with_value(with_plugins({"name": "Own", "args": {"depth": 3}}), path, 1)
    assert str(caught.value) == expected


@pytest.mark.parametrize(("plugins", "ending"), [(20, ""), (21, ", ...")])
def test_a_hint_has_twenty_names_at_most(plugins: int, ending: str) -> None:
    named = [{"name": f"P{i}"} for i in range(plugins)]
    with pytest.raises(UnknownPath) as caught:
        with_value(with_plugins(*named), "profiles.0.pluginConfig.zzz.x", 1)
    listed = ", ".join(f"P{i}" for i in range(20))
    assert str(caught.value).endswith(f"no item 'zzz' among {plugins}; the names are {listed}{ending}")


def test_an_index_has_nine_digits_at_most() -> None:
    assert with_value(DEFAULT, "profiles.000000000.schedulerName", "x")["profiles"][0]["schedulerName"] == "x"
    with pytest.raises(UnknownPath, match=r"^profiles.0{10}.schedulerName: no item '0{10}' among 1$"):
        with_value(DEFAULT, f"profiles.{'0' * 10}.schedulerName", "x")
