"""What several commands take: a scheduler configuration and plugin files."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any
from urllib.parse import urlsplit

import click

from mooring.cli.refusal import refuse
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import IN_EFFECT, GateError, parse_gates, told_gates
from mooring.framework.config.settings import SchedulerSettings
from mooring.framework.config.types import PluginEntry, Plugins
from mooring.framework.points import QueueSortPlugin
from mooring.framework.registry import Registry, load_file
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document
from mooring.model.validation.problem import Problem, show
from mooring.scheduler.assembly import all_plugins

feature_gates = click.option(
    "--feature-gates",
    multiple=True,
    callback=lambda context, option, parts: ",".join(parts),
    metavar="Name=true,...",
    help="In the form of kube-scheduler's flag; may be repeated.",
)


def configured(
    path: str | None, gates: Mapping[str, bool] | None = None, settings: SchedulerSettings | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in a file, or that of a snapshot, or upstream's default. Raises ConfigError."""
    if path is None and settings is not None:
        return configuration.from_object(settings.configuration, feature_gates=gates)
    if path is None:
        return configuration.default(feature_gates=gates)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return configuration.load(text, path, feature_gates=gates)


def enable_loaded(config: KubeSchedulerConfiguration, registry: Registry) -> list[str]:
    """Enable the plugins of files that the configuration does not mention, in all profiles. Returns a note for each."""
    notes = []
    for name in registry.files:
        if any(_mentions(profile.plugins, name) for profile in config.profiles):
            continue
        if _sorts(registry, name):
            continue
        for profile in config.profiles:
            profile.plugins.multi_point.enabled.append(PluginEntry(name=name))
        notes.append(f"plugin {name} is enabled in all profiles, because the configuration does not mention it")
    return notes


def idle_plugins(config: KubeSchedulerConfiguration, registry: Registry) -> dict[str, str]:
    """The plugins that were loaded from files and that no profile enables, with their files."""
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    return {name: file for name, file in registry.files.items() if name not in enabled}


def _mentions(plugins: Plugins, name: str) -> bool:
    return any(
        name == entry.name for chosen in plugins.by_point().values() for entry in (*chosen.enabled, *chosen.disabled)
    )


def _sorts(registry: Registry, name: str) -> bool:
    """Whether the plugin orders the queue: a profile has one such plugin, so it cannot be added to the others."""
    factory = registry.factory(name)
    return isinstance(factory, type) and issubclass(factory, QueueSortPlugin)


def chosen_gates(text: str, settings: SchedulerSettings | None = None) -> dict[str, bool]:
    """All feature gates, as `--feature-gates` chooses them; without it, as a snapshot has them."""
    try:
        return parse_gates(text if text or settings is None else settings.gates_text)
    except GateError as fault:
        refuse(fault)


def tell_gates(gates: Mapping[str, bool]) -> None:
    """Say on stderr which of the gates that were chosen count, and which do not."""
    for text, told in told_gates(gates):
        if told and text != IN_EFFECT:
            click.echo(f"{text}: {', '.join(told)}", err=True)


def registry_with(plugin_files: Sequence[str]) -> Registry:
    """All plugins, and those of these files. Raises RegistryError."""
    registry = all_plugins()
    with redirect_stdout(sys.stderr):  # the report alone goes to standard output
        for file in plugin_files:
            load_file(registry, file)
    return registry


# ---- The Node manifest from which nodes are made.


def read_node_template(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            written = read_document(file.read(), keep_last)
    except OSError as fault:
        refuse(f"{path}: cannot be read: {fault.strerror}")
    except YamlFault as fault:
        refuse(Problem(f"column {fault.column}", str(fault), file=path, line=fault.line))
    if not isinstance(written, dict) or written.get("kind", "Node") != "Node":
        refuse(Problem("", show(written), "one Node manifest", file=path))
    return written


# ---- What /flagz shows: all flags of kube-scheduler v1.36 with their values, as Go writes them.


DEFAULTS: dict[str, str] = {
    **dict.fromkeys(("allow-metric-labels", "disabled-metrics", "emulated-version", "min-compatibility-version"), "[]"),
    **dict.fromkeys(("requestheader-allowed-names", "requestheader-uid-headers"), "[]"),
    **dict.fromkeys(("tls-cipher-suites", "tls-curve-preferences", "tls-sni-cert-key"), "[]"),
    "authorization-always-allow-paths": "[/healthz,/readyz,/livez]",
    "requestheader-extra-headers-prefix": "[x-remote-extra-]",
    "requestheader-group-headers": "[x-remote-group]",
    "requestheader-username-headers": "[x-remote-user]",
    **dict.fromkeys(("allow-metric-labels-manifest", "authentication-kubeconfig", "authorization-kubeconfig"), ""),
    **dict.fromkeys(("cert-dir", "client-ca-file", "config", "feature-gates", "kubeconfig", "master", "vmodule"), ""),
    **dict.fromkeys(("requestheader-client-ca-file", "show-hidden-metrics-for-version", "tls-cert-file"), ""),
    **dict.fromkeys(("tls-min-version", "tls-private-key-file", "write-config-to"), ""),
    **dict.fromkeys(("authentication-skip-lookup", "disable-http2-serving", "help", "version"), "false"),
    **dict.fromkeys(("log-json-split-stream", "log-text-split-stream"), "false"),
    **dict.fromkeys(("permit-address-sharing", "permit-port-sharing"), "false"),
    **dict.fromkeys(("authentication-tolerate-lookup-failure", "contention-profiling", "leader-elect"), "true"),
    "profiling": "true",
    "authentication-token-webhook-cache-ttl": "10s",
    "authorization-webhook-cache-authorized-ttl": "10s",
    "authorization-webhook-cache-unauthorized-ttl": "10s",
    "bind-address": "0.0.0.0",
    "http2-max-streams-per-connection": "0",
    "kube-api-burst": "100",
    "kube-api-content-type": "application/vnd.kubernetes.protobuf",
    "kube-api-qps": "50",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "kube-scheduler",
    "leader-elect-resource-namespace": "kube-system",
    "leader-elect-retry-period": "2s",
    "log-flush-frequency": "5s",
    "log-json-info-buffer-size": "0",
    "log-text-info-buffer-size": "0",
    "logging-format": "text",
    "pod-max-in-unschedulable-pods-duration": "5m0s",
    "secure-port": "10259",
    "v": "0",
}
"""Of kube-scheduler v1.36.4, as its own /flagz shows them. Lists are in brackets."""


def flag_values(options: Iterable[click.Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """All flags with their values as text. Flags that were not given have their default."""
    shown = dict(DEFAULTS)
    for option in options:
        name, value = _flag_of(option), values.get(option.name or "")
        if value is not None and name:
            shown[name] = _shown(value, is_list=DEFAULTS.get(name, "").startswith("["))
    # Parity: a gate without a component is shown with an empty one.
    gates = filter(None, shown["feature-gates"].split(","))
    shown["feature-gates"] = ",".join(gate if ":" in gate else f":{gate.strip()}" for gate in gates)
    shown["master"] = _without_credentials(shown["master"])
    return shown


def _flag_of(option: click.Parameter) -> str:
    """`--v` of `-v, --v`."""
    return max(option.opts, key=len).removeprefix("--")


def _shown(value: Any, is_list: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(str, value))}]"
    return f"[{value}]" if is_list else str(value)


def _without_credentials(url: str) -> str:
    """A URL may have a password in it; /flagz shows none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if host != parts.netloc else url
