"""Options that several commands share, and what they mean: configuration, plugin files, feature gates, node templates.

Also the values of all flags as /flagz shows them. Commands exit with status 2 through `refuse` for input that is wrong.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from mooring.api.validation.problem import Problem, show
from mooring.cli.refusal import refusals, refuse
from mooring.cli.terminal import COLOR, tell
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.durations import Duration
from mooring.framework.config.feature_gates import IN_EFFECT, GateError, parse_gates, told_gates
from mooring.framework.config.settings import SchedulerSettings
from mooring.framework.config.types import PluginEntry, Plugins
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.contract.points import QueueSortPlugin
from mooring.framework.profile.registry import Registry, load_file
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import read_file
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document
from mooring.model.quantity import QuantityError, to_int
from mooring.model.quantity import parse as parse_quantity
from mooring.scheduler.ties import KUBE_SCHEDULER
from mooring.state.scheduler_assembly import all_plugins


def examples(*lines: str) -> str:
    """The end of a help text, with commands to try."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


T = TypeVar("T")
Decorator = Callable[[Any], Any]
"""Adds an option to a command, or several."""


def gathered(argument: str, into: Callable[..., Any], *options: Decorator) -> Decorator:
    """Options that a command gets as one argument: what `into` makes of their values, which it takes by name."""

    def decorate(command: Any) -> Any:
        @wraps(command)
        def with_group(**given: Any) -> Any:
            group = into(**{name: given.pop(name) for name in names})
            return command(**{argument: group}, **given)

        params: list[click.Parameter] = [*getattr(command, "__click_params__", ())]
        names, before = [], len(params)
        with_group.__click_params__ = params  # type: ignore[attr-defined]
        for option in reversed(options):
            option(with_group)
        names += [param.name for param in params[before:] if param.name is not None and param.expose_value]
        return with_group

    return decorate


def file_option(name: str, text: str, **settings: Any) -> Decorator:
    """An option that names a file; `text` is its help."""
    return click.option(name, metavar="FILE", help=text, **settings)


def path_option(name: str, text: str, **settings: Any) -> Decorator:
    """An option that gives a Path; `text` is its help."""
    return click.option(name, type=click.Path(path_type=Path, **settings), help=text)


config_file = file_option("--config", "A KubeSchedulerConfiguration (v1).")
plugin_files = click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE.py", help="A Python file with your own plugins."
)
node_template = file_option("--node-template", "A Node manifest to make the nodes from.")
_CONTEXT = "The context of the kubeconfig"


def _one_context(context: click.Context, option: click.Parameter, written: tuple[str, ...]) -> str:
    """The only value of an option that a user might expect to take several."""
    if len(set(written)) > 1:
        raise click.BadParameter(f"{context.command.name} asks one cluster: name one context", context, option)
    return written[0] if written else ""


def one_context(text: str) -> Decorator:
    """The option --context of a command that asks one cluster; `text` is its help."""
    return click.option("--context", multiple=True, callback=_one_context, metavar="NAME", help=text)


context_name = one_context(f"{_CONTEXT}; one only.")
context_names = click.option(
    "--context",
    multiple=True,
    callback=lambda context, option, written: tuple(dict.fromkeys(written)),
    metavar="NAME",
    help=f"{_CONTEXT}. Given several times, each of the clusters is asked.",
)
"""The option --context of commands that ask several clusters at once: the command gets all names."""
dashboard_port = click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="With --serve: the port of the dashboard; 0 takes a free one.  [default: 6480 if it is free]",
)
real_use = click.option(
    "--use",
    default="",
    metavar="SOURCE",
    help="Show real use beside requests: from metrics-server, the URL of a Prometheus, or a file that describes one. "
    "Decisions do not depend on it.",
)
PRICES = "by instance type or name (YAML), in OpenCost's CSV, or with instance types of Karpenter."
"""The forms of the files of --prices."""
price_unit = click.option(
    "--price-unit", default="", metavar="TEXT", help="The unit of prices, to show beside them: 'EUR an hour'."
)


def prices_of_nodes(command: Any) -> Any:
    """The options --prices and --price-unit, as one value `prices`; None: neither is given. A file that cannot be used ends
    the command."""

    @wraps(command)
    def with_prices(*args: Any, prices: str | None, price_unit: str, **given: Any) -> Any:
        given["prices"] = None
        if prices or price_unit:
            from mooring.inputs.offers.offer_files import prices_in  # Hot: 20 ms of the start, and few have prices

            with refusals():
                given["prices"] = prices_in(price_unit, prices)
        return command(*args, **given)

    return file_option("--prices", f"What nodes cost an hour, {PRICES}")(price_unit(with_prices))


tie_break = click.option(
    "--tie-break",
    "ties",
    type=click.Choice(["name", KUBE_SCHEDULER]),
    default="name",
    show_default=True,
    callback=lambda context, option, rule: None if rule == "name" else rule,
    help="Which of several nodes with the highest score is taken: the one with the lowest name, or the one that "
    "kube-scheduler takes where its goroutines do not race (docs/parity.md).",
)
"""The option --tie-break: the command gets a TieRule, `ties`."""
color_choice = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    expose_value=False,
    callback=lambda context, option, choice: context.meta.update({COLOR: choice}),
    help="Emphasis and colours in text: where a terminal shows it and NO_COLOR is not set, always, or never.",
)
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


def duration(name: str, text: str, default: str | None = None, argument: str | None = None) -> Decorator:
    """An option that takes a duration as Go writes it; `text` is its help, and `argument` what the command gets it as."""
    names = (name,) if argument is None else (name, argument)
    return click.option(*names, type=GoDuration(), default=default, show_default=True, help=text)


def size(name: str, text: str, default: str) -> Decorator:
    """An option that takes a number of bytes; `text` is its help."""
    return click.option(name, type=ByteQuantity(), default=default, show_default=True, help=text)


def field_validation(of: str = "") -> Decorator:
    """The option --validate, which gives a Validation; `of` names the input, if it is not all input of the command."""
    # Hot: the check of fields takes 0.1 s to import, and `mooring run` shares this module.
    from mooring.inputs.field_checks import Validation

    return click.option(
        "--validate",
        type=click.Choice([each.value for each in Validation]),
        default=Validation.STRICT.value,
        show_default=True,
        callback=lambda context, option, written: Validation(written),
        help=f"Unknown or repeated fields{of}: refuse the input, warn, or ignore them, as kubectl does.",
    )


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
    try:
        return configuration_of(settings.configuration if path is None and settings is not None else path, gates)
    except InputError as fault:
        refuse(*fault.problems)


def enable_loaded(config: KubeSchedulerConfiguration, registry: Registry) -> list[str]:
    """Enable plugins of files that the configuration does not mention in all profiles. Returns a note for each.

    Only `simulate` does this: to try a plugin should need no configuration. A package may offer alternatives, so a
    configuration that mentions one of its plugins says which of them count.
    """
    notes = []
    mentioned = {name for name in registry.files if any(_mentions(each.plugins, name) for each in config.profiles)}
    packages = _packages_of(mentioned, registry)
    for name, file in registry.files.items():
        if name in mentioned or file in packages:
            continue
        if _sorts(registry, name):
            continue
        for profile in config.profiles:
            profile.plugins.multi_point.enabled.append(PluginEntry(name=name))
        notes.append(f"plugin {name} is enabled in all profiles, because the configuration does not mention it")
    return notes


def idle_plugins(config: KubeSchedulerConfiguration, registry: Registry) -> dict[str, str]:
    """Plugins that were loaded from files and that no profile enables: name -> file. Those of a package of which a profile
    enables another plugin do not count."""
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    packages = _packages_of(enabled & registry.files.keys(), registry)
    return {name: file for name, file in registry.files.items() if name not in enabled and file not in packages}


def _packages_of(plugins: Iterable[str], registry: Registry) -> set[str]:
    """The packages, which are folders, that these plugins were loaded from."""
    return {registry.files[name] for name in plugins if Path(registry.files[name]).is_dir()}


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
    from mooring.inputs.documents import ManifestFile  # Hot: as in `field_validation`
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


DEFAULTS: dict[str, str] = dict(
    line.split("=", 1) for line in Path(__file__).with_name("flagz.txt").read_text().splitlines()
)
"""The flags of kube-scheduler v1.36.4 with their defaults, copied from its /flagz. Lists are in brackets."""


def flag_values(options: Iterable[click.Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """All flags with their values as Go writes them. Flags that were not given have their default."""
    shown = dict(DEFAULTS)
    for option in options:
        name, value = max(option.opts, key=len).removeprefix("--"), values.get(option.name or "")  # `--v` of `-v, --v`
        if value is not None and name:
            shown[name] = _shown(value, is_list=DEFAULTS.get(name, "").startswith("["))
    # Parity: a gate without a component is shown with an empty one.
    gates = filter(None, shown["feature-gates"].split(","))
    shown["feature-gates"] = ",".join(gate if ":" in gate else f":{gate.strip()}" for gate in gates)
    shown["master"] = _without_credentials(shown["master"])
    return shown


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
