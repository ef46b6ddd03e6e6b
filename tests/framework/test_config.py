"""Reading a configuration: texts that are refused, word for word, and what the accepted ones come to."""

import json
from typing import Any

import pytest

from mooring.framework.config import ConfigError, from_object, load
from mooring.framework.config.durations import Duration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SCHEME = 'in scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"'
KIND_STRUCT = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def with_args(plugin: str, args: Any) -> dict[str, Any]:
    return {**V1, "profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(text)
    assert refused.value.stage == "decode"
    assert refused.value.problems == [str(refused.value)]
    return str(refused.value)


NOT_A_CONFIGURATION = {
    "an empty file has no kind": ("", "Object 'Kind' is missing in ''"),
    "a file of comments has no kind": ("# nothing\n", "Object 'Kind' is missing in '# nothing\n'"),
    "the kind is asked for before the version": ("a: b\n", "Object 'Kind' is missing in 'a: b\n'"),
    "a version is needed too": (
        "kind: KubeSchedulerConfiguration",
        "Object 'apiVersion' is missing in 'kind: KubeSchedulerConfiguration'",
    ),
    "older versions are gone": (
        HEAD.replace("v1", "v1beta3"),
        'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3" '
        + SCHEME,
    ),
    "other kinds are unknown": (
        "apiVersion: v1\nkind: Pod\n",
        f'no kind "Pod" is registered for version "v1" {SCHEME}',
    ),
    "arguments of a plugin are no configuration": (
        HEAD.replace("KubeSchedulerConfiguration", "InterPodAffinityArgs"),
        "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, "
        "Kind=InterPodAffinityArgs: ",
    ),
    "a version has at most one slash": ("apiVersion: a/b/c\nkind: X", "unexpected GroupVersion string: a/b/c"),
    "a list is no object": (
        "- a\n",
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
        + KIND_STRUCT,
    ),
    "a kind is a text": (
        "kind: 5",
        "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type "
        "string",
    ),
    "YAML must parse": ("a: b\nc: d: e\n", "yaml: line 2: mapping values are not allowed in this context"),
    "no line is named for the first one": ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
    "what the parser finds is said of the line before": (
        "a: b\nc: [d\ne: f\n",
        "yaml: line 2: did not find expected ',' or ']'",
    ),
    "what begins like JSON must be JSON": (
        "{apiVersion: v1}",
        "couldn't get version/kind; json parse error: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    "an alias must not contain itself": ("a: &x [*x]\n", "yaml: document contains excessive aliasing"),
}


@pytest.mark.parametrize(("text", "error"), NOT_A_CONFIGURATION.values(), ids=NOT_A_CONFIGURATION.keys())
def test_what_is_not_a_configuration_is_refused(text: str, error: str) -> None:
    assert refusal(text) == error


STRICT = {
    "an unknown field": ("foo: 1", 'unknown field "foo"'),
    "names are case-sensitive": ("Parallelism: 1", 'unknown field "Parallelism"'),
    "several, deep down, with their paths": (
        "profiles: [{bogus: 1, plugins: {score: {enabled: [{name: A, wt: 2}]}}}]",
        'unknown field "profiles[0].bogus", unknown field "profiles[0].plugins.score.enabled[0].wt"',
    ),
    "YAML keys are looked at in alphabetical order": ("zoo: 1\nant: 2", 'unknown field "ant", unknown field "zoo"'),
    "a key that is written twice": (
        "leaderElection: {}\nparallelism: 1\nparallelism: 2",
        'yaml: unmarshal errors:\n  line 5: key "parallelism" already set in map',
    ),
    "two such keys and an unknown field": (
        "extenders:\n- weight: 1\n  weight: 2\n  verb: x\nfoo: 1\nfoo: 2",
        'yaml: unmarshal errors:\n  line 5: key "weight" already set in map\n  line 8: key "foo" already set in map, '
        'unknown field "extenders[0].verb", unknown field "foo"',
    ),
    "an unknown field of a plugin's arguments": (
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {foo: 1}}]}]",
        "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin InterPodAffinity: "
        'strict decoding error: unknown field "foo"',
    ),
    "the file's own complaints come before those about arguments": (
        "foo: 1\nprofiles: [{pluginConfig: [{name: NodeAffinity, args: {bar: 1}}]}]",
        'unknown field "foo", decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin '
        'NodeAffinity: strict decoding error: unknown field "bar"',
    ),
}


@pytest.mark.parametrize(("body", "complaints"), STRICT.values(), ids=STRICT.keys())
def test_decoding_is_strict(body: str, complaints: str) -> None:
    assert refusal(HEAD + body) == f"strict decoding error: {complaints}"


def test_json_is_strict_about_repeated_fields_too() -> None:
    text = json.dumps({**V1, "parallelism": 1})[:-1] + ', "parallelism": 2}'
    assert refusal(text) == 'strict decoding error: duplicate field "parallelism"'


WRONG_TYPES = {
    "a text for a number": ("parallelism: many", "string", "KubeSchedulerConfiguration.parallelism of type int32"),
    "a number that is too large": (
        "parallelism: 2147483648",
        "number 2147483648",
        "KubeSchedulerConfiguration.parallelism of type int32",
    ),
    "a fraction": ("parallelism: 1.5", "number 1.5", "KubeSchedulerConfiguration.parallelism of type int32"),
    "true for a number": (
        "podMaxBackoffSeconds: true",
        "bool",
        "KubeSchedulerConfiguration.podMaxBackoffSeconds of type int64",
    ),
    "an object for a list": (
        "profiles: {}",
        "object",
        "KubeSchedulerConfiguration.profiles of type []v1.KubeSchedulerProfile",
    ),
    "a text for an object": (
        "leaderElection: no way",
        "string",
        "KubeSchedulerConfiguration.leaderElection of type v1alpha1.LeaderElectionConfiguration",
    ),
    "a text for an item": (
        "profiles: [x]",
        "string",
        "KubeSchedulerConfiguration.profiles of type v1.KubeSchedulerProfile",
    ),
    "deep down, named by the innermost structure": (
        "profiles: [{plugins: {score: {enabled: [{name: 7}]}}}]",
        "number",
        "Plugin.profiles.plugins.score.enabled.name of type string",
    ),
    "a number for a duration": (
        "leaderElection: {leaseDuration: 15}",
        "number",
        "LeaderElectionConfiguration.leaderElection.leaseDuration of type string",
    ),
    "a text for a fraction": (
        "clientConnection: {qps: fast}",
        "string",
        "ClientConnectionConfiguration.clientConnection.qps of type float32",
    ),
    "a number for yes or no": (
        "enableProfiling: 1",
        "number",
        "KubeSchedulerConfiguration.enableProfiling of type bool",
    ),
    "the first of several, before any unknown field": (
        "foo: 1\nextenders: 3\nparallelism: x",
        "number",
        "KubeSchedulerConfiguration.extenders of type []v1.Extender",
    ),
}


@pytest.mark.parametrize(("body", "found", "target"), WRONG_TYPES.values(), ids=WRONG_TYPES.keys())
def test_a_value_of_the_wrong_type_is_refused(body: str, found: str, target: str) -> None:
    assert refusal(HEAD + body) == f"json: cannot unmarshal {found} into Go struct field {target}"


BAD_ARGS = {
    "of another plugin": (
        "InterPodAffinity",
        {"kind": "NodeAffinityArgs"},
        "args for plugin InterPodAffinity were not of type InterPodAffinityArgs.kubescheduler.config.k8s.io, "
        "got NodeAffinityArgs.kubescheduler.config.k8s.io",
    ),
    "of no kind that exists": (
        "NodeAffinity",
        {"kind": "Foo"},
        'decoding args for plugin NodeAffinity: no kind "Foo" is registered for version '
        f'"kubescheduler.config.k8s.io/v1" {SCHEME}',
    ),
    "of a version that is gone": (
        "NodeAffinity",
        {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"},
        'decoding args for plugin NodeAffinity: no kind "NodeAffinityArgs" is registered for version '
        f'"kubescheduler.config.k8s.io/v1beta2" {SCHEME}',
    ),
    "with a value of the wrong type": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": 5}},
        "decoding args for plugin NodeResourcesFit: json: cannot unmarshal number into Go struct field "
        "ScoringStrategy.scoringStrategy.type of type v1.ScoringStrategyType",
    ),
    "that are no object": (
        "NodeAffinity",
        "x",
        "decoding args for plugin NodeAffinity: couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"string into Go value of type {KIND_STRUCT}",
    ),
}


@pytest.mark.parametrize(("plugin", "args", "error"), BAD_ARGS.values(), ids=BAD_ARGS.keys())
def test_bad_arguments_are_refused(plugin: str, args: Any, error: str) -> None:
    text = json.dumps(with_args(plugin, args))
    assert refusal(text) == f"decoding .profiles[0].pluginConfig[0]: {error}"


def test_a_repeated_field_in_json_arguments_is_refused() -> None:
    text = json.dumps(with_args("NodeAffinity", {"addedAffinity": None}))
    text = text.replace('"addedAffinity": null', '"addedAffinity": null, "addedAffinity": null')
    assert refusal(text).endswith('NodeAffinity: strict decoding error: duplicate field "addedAffinity"')


def test_an_error_knows_where_the_text_is_from() -> None:
    with pytest.raises(ConfigError) as refused:
        load(HEAD + "foo: 1", "scheduler.yaml")
    assert refused.value.source == "scheduler.yaml"


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(ConfigError, match="yaml: invalid leading UTF-8 octet"):
        load(b"\xff\xfe\x00")


def test_only_the_first_document_counts() -> None:
    config = load(f"---\n{HEAD}parallelism: 4\n---\nthis: [is, {{not\n".encode())
    assert config.parallelism == 4


def test_yaml_and_json_come_to_the_same() -> None:
    text = HEAD + "parallelism: 8.0\nclientConnection: {qps: 1e3}\nleaderElection: {leaderElect: no}\n"
    obj = {**V1, "parallelism": 8, "clientConnection": {"qps": 1000}, "leaderElection": {"leaderElect": False}}
    assert load(text) == from_object(obj)


def test_yaml_dates_and_base_sixty_numbers_stay_texts() -> None:
    config = load(HEAD + "profiles: [{pluginConfig: [{name: Mine, args: {a: 2024-01-01, b: 1:30}}]}]")
    assert config.profiles[0].plugin_config[0].args == {"a": "2024-01-01", "b": "1:30"}


# ---- Durations and bytes

DURATIONS = {
    "0s": 0,
    "1ns": 1,
    "1.5µs": 1_500,
    "100ms": 100_000_000,
    "2.5s": 2_500_000_000,
    "1m0s": 60_000_000_000,
    "1h0m0.5s": 3_600_500_000_000,
    "-1h1m1s": -3_661_000_000_000,
}


@pytest.mark.parametrize(("text", "nanoseconds"), DURATIONS.items())
def test_durations_are_read_and_written_as_go_does(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text) == Duration(nanoseconds)
    assert str(Duration(nanoseconds)) == text


@pytest.mark.parametrize(
    ("text", "shown"), [("90s", "1m30s"), ("+1.5h", "1h30m0s"), (".5s", "500ms"), ("1us", "1µs"), ("-0", "0s")]
)
def test_durations_have_several_spellings(text: str, shown: str) -> None:
    assert str(Duration.parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1h 5m", 'time: unknown unit "h " in duration "1h 5m"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_what_is_no_duration_is_refused(text: str, error: str) -> None:
    assert refusal(HEAD + f"leaderElection: {{retryPeriod: {json.dumps(text)}}}") == error


def test_null_is_no_duration() -> None:
    assert refusal(HEAD + "leaderElection: {leaseDuration: null}") == 'time: invalid duration ""'


def test_certificates_of_extenders_are_base64() -> None:
    config = from_object({**V1, "extenders": [{"enableHTTPS": True, "tlsConfig": {"caData": "Y2E="}}]})
    (extender,) = config.extenders
    assert extender.enable_https
    assert extender.tls_config is not None
    assert extender.tls_config.ca_data == b"ca"
    text = json.dumps({**V1, "extenders": [{"tlsConfig": {"keyData": "?"}}]})
    assert refusal(text).startswith("illegal base64 data")
