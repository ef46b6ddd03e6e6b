"""Options that several commands share, and what they mean: configuration, plugin files, feature gates, node templates.

Also the values of all flags as /flagz shows them. Commands exit with status 2 through `refuse` for input that is wrong.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from mooring.api.validation.problem import Problem, show
from mooring.cli.refusal import refuse
from mooring.cli.terminal import tell
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.durations import Duration
from mooring.framework.config.feature_gates import IN_EFFECT, GateError, parse_gates, told_gates
from mooring.framework.config.settings import SchedulerSettings
from mooring.framework.config.types import PluginEntry, Plugins
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.contract.points import QueueSortPlugin
from mooring.framework.profile.registry import Registry, load_file
from mooring.kit.bounded_reading import read_file
from mooring.kit.words import similar
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document
from mooring.model.quantity import QuantityError, to_int
from mooring.model.quantity import parse as parse_quantity
from mooring.state.assembly import all_plugins

# ---- Groups of commands: what they say of their commands, and which they suggest for one that does not exist.


class SuggestingGroup(click.Group):
    """A group that says which commands are similar, also if it imports them only when they run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            found = " or ".join(map(repr, similar(name, self.list_commands(ctx), 2)))
            ctx.fail(f"No such command {name!r}.{f' Did you mean {found}?' if found else ''}")
        return super().resolve_command(ctx, args)


def examples(*lines: str) -> str:
    """The end of a help text, with commands to try."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


T = TypeVar("T")

config_file = click.option("--config", metavar="FILE", help="A KubeSchedulerConfiguration (v1).")
plugin_files = click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE.py", help="A Python file with your own plugins."
)
node_template = click.option("--node-template", metavar="FILE", help="A Node manifest to make the nodes from.")
feature_gates = click.option(
    "--feature-gates",
    multiple=True,
    callback=lambda context, option, parts: ",".join(parts),
    metavar="Name=true,...",
    help="In the form of kube-scheduler's flag; may be repeated.",
)


def read_by(read: Callable[[tuple[str, ...]], T]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], T]:
    """A callback for an option that can be given several times. A ValueError of `read` becomes a usage error."""

    def callback(context: click.Context, option: click.Parameter, written: tuple[str, ...]) -> T:
        try:
            return read(written)
        except ValueError as fault:
            raise click.BadParameter(str(fault), context, option) from fault

    return callback


def _annotation_patterns(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(AnnotationKeys.of(key for part in parts for key in part.split(",")).patterns())


keep_annotations = click.option(
    "--keep-annotations",
    multiple=True,
    callback=read_by(_annotation_patterns),
    metavar="KEY,...",
    help="Write these annotations too, with their values; a * at the end means all keys that begin so. Annotations that "
    "plugins declare are written anyway.",
)


class GoDuration(click.ParamType[Duration]):
    """`1m30s`, with Go's error messages."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Duration:
        if isinstance(value, Duration):
            return value
        try:
            return Duration.parse(value)
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


class ByteQuantity(click.ParamType[int]):
    """`64Mi`: a quantity as manifests have it, in bytes."""

    name = "QUANTITY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            count = to_int(parse_quantity(value))
        except QuantityError as fault:
            self.fail(str(fault), param, ctx)
        if count < 0:
            self.fail(f"{value} is negative", param, ctx)
        return count


kept_answers_limit = click.option(
    "--kept-answers-limit",
    type=ByteQuantity(),
    help="The memory for answers of plugins that are kept for pods of the same shape, such as 256Mi."
    "  [default: 32Mi, or 3Ki for each node if that is more]",
)


def configured(
    path: str | None, gates: Mapping[str, bool] | None = None, settings: SchedulerSettings | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in the file, or that of a snapshot, or upstream's default. Raises ConfigError."""
    if path is None and settings is not None:
        return configuration.from_object(settings.configuration, feature_gates=gates)
    if path is None:
        return configuration.default(feature_gates=gates)
    try:
        text = read_file(path)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return configuration.load(text, path, feature_gates=gates)


def enable_loaded(config: KubeSchedulerConfiguration, registry: Registry) -> list[str]:
    """Enable plugins of files that the configuration does not mention in all profiles. Returns a note for each.

    Only `simulate` does this: to try a plugin should need no configuration.
    """
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
    """Plugins that were loaded from files and that no profile enables: name -> file."""
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    return {name: file for name, file in registry.files.items() if name not in enabled}


def _mentions(plugins: Plugins, name: str) -> bool:
    return any(
        name == entry.name for chosen in plugins.by_point().values() for entry in (*chosen.enabled, *chosen.disabled)
    )


def _sorts(registry: Registry, name: str) -> bool:
    """Whether the plugin is a QueueSort plugin: a profile has exactly one, so it cannot be added."""
    factory = registry.factory(name)
    return isinstance(factory, type) and issubclass(factory, QueueSortPlugin)


def chosen_gates(text: str, settings: SchedulerSettings | None = None) -> dict[str, bool]:
    """The value of every feature gate: from `--feature-gates`, or from the snapshot, or the default."""
    try:
        return parse_gates(text if text or settings is None else settings.gates_text)
    except GateError as fault:
        refuse(fault)


def tell_gates(gates: Mapping[str, bool]) -> None:
    """Print to standard error which of the given gates have no effect."""
    for text, told in told_gates(gates):
        if told and text != IN_EFFECT:
            tell(f"{text}: {', '.join(told)}", err=True)


def registry_with(plugin_files: Sequence[str]) -> Registry:
    """The registry of all plugins, with those of the files. Raises RegistryError."""
    registry = all_plugins()
    with redirect_stdout(sys.stderr):  # a plugin file may print; standard output is for the report
        for file in plugin_files:
            load_file(registry, file)
    return registry


# ---- node templates


def read_node_template(path: str | None) -> dict[str, Any] | None:
    """The Node manifest from which nodes are made; None for the default."""
    if path is None:
        return None
    # Hot: the check of fields takes 0.1 s to import, and `mooring run` shares this module.
    from mooring.inputs.documents import ManifestFile
    from mooring.inputs.field_checks import template_problems

    try:
        text = read_file(path)
        written = read_document(text, keep_last)
    except OSError as fault:
        refuse(f"{path}: cannot be read: {fault.strerror}")
    except YamlFault as fault:
        refuse(Problem(f"column {fault.column}", str(fault), file=path, line=fault.line))
    if not isinstance(written, dict) or written.get("kind", "Node") != "Node":
        refuse(Problem("", show(written), "one Node manifest", file=path))
    if problems := template_problems(ManifestFile(path, text), "Node", written):
        refuse(*problems)
    return written


# ---- /flagz


_FLAGZ = """
allow-metric-labels=[]
allow-metric-labels-manifest=
authentication-kubeconfig=
authentication-skip-lookup=false
authentication-token-webhook-cache-ttl=10s
authentication-tolerate-lookup-failure=true
authorization-always-allow-paths=[/healthz,/readyz,/livez]
authorization-kubeconfig=
authorization-webhook-cache-authorized-ttl=10s
authorization-webhook-cache-unauthorized-ttl=10s
bind-address=0.0.0.0
cert-dir=
client-ca-file=
config=
contention-profiling=true
disable-http2-serving=false
disabled-metrics=[]
emulated-version=[]
feature-gates=
help=false
http2-max-streams-per-connection=0
kube-api-burst=100
kube-api-content-type=application/vnd.kubernetes.protobuf
kube-api-qps=50
kubeconfig=
leader-elect=true
leader-elect-lease-duration=15s
leader-elect-renew-deadline=10s
leader-elect-resource-lock=leases
leader-elect-resource-name=kube-scheduler
leader-elect-resource-namespace=kube-system
leader-elect-retry-period=2s
log-flush-frequency=5s
log-json-info-buffer-size=0
log-json-split-stream=false
log-text-info-buffer-size=0
log-text-split-stream=false
logging-format=text
master=
min-compatibility-version=[]
permit-address-sharing=false
permit-port-sharing=false
pod-max-in-unschedulable-pods-duration=5m0s
profiling=true
requestheader-allowed-names=[]
requestheader-client-ca-file=
requestheader-extra-headers-prefix=[x-remote-extra-]
requestheader-group-headers=[x-remote-group]
requestheader-uid-headers=[]
requestheader-username-headers=[x-remote-user]
secure-port=10259
show-hidden-metrics-for-version=
tls-cert-file=
tls-cipher-suites=[]
tls-curve-preferences=[]
tls-min-version=
tls-private-key-file=
tls-sni-cert-key=[]
v=0
version=false
vmodule=
write-config-to=
"""
DEFAULTS: dict[str, str] = dict(line.split("=", 1) for line in _FLAGZ.split())
"""The flags of kube-scheduler v1.36.4 with their defaults, copied from its /flagz. Lists are in brackets."""


def flag_values(options: Iterable[click.Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """All flags with their values as Go writes them. Flags that were not given have their default."""
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
    """A value as Go's flag package prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(str, value))}]"
    return f"[{value}]" if is_list else str(value)


def _without_credentials(url: str) -> str:
    """The URL without user and password: /flagz shows no secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if host != parts.netloc else url
