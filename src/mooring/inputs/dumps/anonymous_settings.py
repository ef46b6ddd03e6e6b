"""The settings of a scheduler for an anonymous dump: what decisions read of a configuration, under new names."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.framework.config.types import API_VERSION, KIND
from mooring.inputs.dumps.name_book import NameBook
from mooring.inputs.dumps.public_words import DURATION
from mooring.inputs.dumps.rename_rules import word
from mooring.inputs.dumps.renaming import renamed
from mooring.model.pod_spec import NodeAffinitySpec
from mooring.plugins.builtin import in_tree

_CONFIGURATION = frozenset((API_VERSION, KIND, *(f"{name}Args" for name in in_tree())))
"""The version and the kinds of a configuration and of the arguments of plugins."""
_KEPT = (
    *("apiVersion", "kind", "parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds"),
    *("podMaxBackoffSeconds", "delayCacheUntilActive"),
)
"""Fields that decisions or the queue read, without names. Extenders, credentials and leases are left out."""


def anonymous_settings(book: NameBook, settings: JsonObject) -> JsonObject:
    """Profiles with the plugins that Mooring has; those of users are code that nobody else has."""
    written = settings["configuration"]
    known = {*in_tree()}
    profiles = [_profile(book, profile, known) for profile in written.get("profiles", ())]
    kept = {name: _args(book, written[name]) for name in _KEPT if name in written}
    gates = {name: on for name, on in settings.get("featureGates", {}).items() if name in DEFAULTS}
    return {
        **{name: settings[name] for name in ("apiVersion", "kind") if name in settings},
        "configuration": {**kept, "profiles": profiles},
        "featureGates": gates,
    }


def unknown_plugins(settings: JsonObject) -> list[str]:
    """The plugins that an anonymous dump leaves out."""
    known = {*in_tree()}
    profiles = settings["configuration"].get("profiles", ())
    names = {name for profile in profiles for name in _plugin_names(profile.get("plugins", {}))}
    return sorted(names - known - {"*"})


def _plugin_names(plugins: Mapping[str, Any]) -> Iterator[str]:
    for point in plugins.values():
        for entry in (*point.get("enabled", ()), *point.get("disabled", ())):
            yield entry["name"]


def _profile(book: NameBook, profile: JsonObject, known: set[str]) -> JsonObject:
    new = {name: profile[name] for name in ("percentageOfNodesToScore",) if name in profile}
    if "schedulerName" in profile:
        new["schedulerName"] = book.public_name(profile["schedulerName"])
    if "plugins" in profile:
        new["plugins"] = {name: _point(point, known) for name, point in profile["plugins"].items()}
    if "pluginConfig" in profile:
        entries = [entry for entry in profile["pluginConfig"] if entry["name"] in known]
        new["pluginConfig"] = [{"name": entry["name"], "args": _args(book, entry.get("args", {}))} for entry in entries]
    return new


def _point(point: JsonObject, known: set[str]) -> JsonObject:
    return {
        name: [entry for entry in point[name] if entry["name"] in known or entry["name"] == "*"]
        for name in ("enabled", "disabled")
        if name in point
    }


def _args(book: NameBook, args: Any) -> Any:
    """Arguments of plugins: resources, topology keys and the added node affinity have names."""
    if isinstance(args, list):
        return [_args(book, each) for each in args]
    if not isinstance(args, dict):
        is_public = isinstance(args, str) and (args in _CONFIGURATION or DURATION.fullmatch(args))
        return args if is_public else word(book, args)
    return {name: _argument(book, name, value) for name, value in args.items()}


def _argument(book: NameBook, name: str, value: Any) -> Any:
    match name:
        case "addedAffinity" if value:
            return msgspec.to_builtins(renamed(book, msgspec.convert(value, NodeAffinitySpec)))
        case "topologyKey":
            return book.key(value)
        case "resources":
            return [{**entry, "name": book.resource(entry["name"])} for entry in value or ()]
        case "ignoredResources":
            return [book.resource(each) for each in value or ()]
        case "ignoredResourceGroups":
            return [book.driver(each) for each in value or ()]
    return _args(book, value)
