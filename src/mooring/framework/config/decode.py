"""From the text of a configuration to its typed form, or to the error that upstream would give for it.

The order of what can go wrong is upstream's: syntax, version and kind, a value of the wrong type, the arguments of
plugins, and last what only strictness forbids. Nothing is defaulted or validated here.
"""

from typing import Any

import msgspec

from mooring.framework.config.args import ARGS_KINDS, Args, args_kind
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.strict import StrictReader, json_kind
from mooring.framework.config.syntax import parse
from mooring.framework.config.types import API_VERSION, GROUP, KIND, KubeSchedulerConfiguration, PluginConfig, Section

_KINDS: dict[str, type[Section]] = {KIND: KubeSchedulerConfiguration, **ARGS_KINDS}
"""What may be written at the top of a file. Arguments too: upstream decodes them first and then says that they are
no configuration."""
_SCHEME = "pkg/scheduler/apis/config/scheme/scheme.go:29"
"""The line of upstream's source that its error message names."""
_KIND_STRUCT = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
"""Where upstream reads version and kind: a type without a name, which its errors spell out."""


class _Fault(ValueError):
    """Why something cannot be decoded. Callers add the place where it stands."""


class ConfigTypeName(msgspec.Struct, frozen=True):
    """Version and kind of an object: upstream's GroupVersionKind. Either may be empty until defaults are applied."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        """Kind and group as upstream's errors join them."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def decode(text: str) -> KubeSchedulerConfiguration:
    """The configuration as it is written, plugin arguments typed; raises ConfigError(stage="decode")."""
    document = parse(text)
    reader = StrictReader(strict=document.faults)
    try:
        name = _type_name(document.value)
        config = _read(reader, document.value, name, text)
        if isinstance(config, KubeSchedulerConfiguration):
            reader.strict += _decode_all_args(config)
    except _Fault as fault:
        raise ConfigError("decode", [str(fault)]) from None
    if reader.strict:
        raise ConfigError("decode", [_strict_text(reader.strict)])
    if not isinstance(config, KubeSchedulerConfiguration):
        raise ConfigError("decode", [f"couldn't decode as {KIND}, got {name.api_version}, Kind={name.kind}: "])
    return config


def _strict_text(complaints: list[str]) -> str:
    """All strict complaints in one text, as upstream's strict decoding error."""
    return f"strict decoding error: {', '.join(complaints)}"


def _type_name(value: Any) -> ConfigTypeName:
    """Version and kind as they are written; missing ones are empty."""
    if value is not None and not isinstance(value, dict):
        raise _Fault(_kind_fault(f"{json_kind(value)} into Go value of type {_KIND_STRUCT}"))
    written = {key: (value or {}).get(key) or "" for key in ("apiVersion", "kind")}
    for key, found in written.items():
        if not isinstance(found, str):
            raise _Fault(_kind_fault(f"{json_kind(found)} into Go struct field .{key} of type string"))
    group, slash, version = written["apiVersion"].rpartition("/")
    if "/" in group:
        raise _Fault(f"unexpected GroupVersion string: {written['apiVersion']}")
    return ConfigTypeName(group if slash else "", version, written["kind"])


def _kind_fault(mismatch: str) -> str:
    """The error of upstream's first pass, which reads nothing but version and kind."""
    return f"couldn't get version/kind; json parse error: json: cannot unmarshal {mismatch}"


def _read(reader: StrictReader, value: Any, name: ConfigTypeName, text: str) -> Section:
    """The object that `name` says it is; `text` is what an error shows of it."""
    if not name.kind:
        raise _Fault(f"Object 'Kind' is missing in '{text}'")
    if not name.version:
        raise _Fault(f"Object 'apiVersion' is missing in '{text}'")
    section = _KINDS.get(name.kind)
    if section is None or name.api_version != API_VERSION:
        raise _Fault(f'no kind "{name.kind}" is registered for version "{name.api_version}" in scheme "{_SCHEME}"')
    decoded = reader.read(section, value)
    if reader.fault:
        raise _Fault(reader.fault)
    return decoded


def _decode_all_args(config: KubeSchedulerConfiguration) -> list[str]:
    """Give the arguments of known plugins their type; returns strict complaints, raises at the first other fault."""
    complaints = []
    for i, profile in enumerate(config.profiles):
        for j, plugin in enumerate(profile.plugin_config):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            try:
                strict = _decode_args(plugin)
            except _Fault as fault:
                raise _Fault(f"{where}{fault}") from None
            if strict:
                complaints.append(where + strict)
    return complaints


def _decode_args(plugin: PluginConfig) -> str:
    """Type the arguments in place; returns the strict complaints. Arguments of unknown plugins stay as they are
    written, unchecked."""
    expected = args_kind(plugin.name)
    if expected is None:
        return ""
    reader = StrictReader()
    try:
        name = _with_defaults(_type_name(plugin.args), expected)
        args = _read(reader, plugin.args, name, "")
    except _Fault as fault:
        raise _Fault(f"decoding args for plugin {plugin.name}: {fault}") from None
    if type(args) is not expected:
        wanted = ConfigTypeName(GROUP, "v1", expected.__name__)
        raise _Fault(f"args for plugin {plugin.name} were not of type {wanted.group_kind}, got {name.group_kind}")
    plugin.args = args
    if not reader.strict:
        return ""
    return _strict_text([f"decoding args for plugin {plugin.name}: {_strict_text(reader.strict)}"])


def _with_defaults(name: ConfigTypeName, expected: type[Args]) -> ConfigTypeName:
    """Version and kind may be left out of arguments: they follow from the plugin."""
    is_open = not name.version and name.group in ("", GROUP)
    group, version = (GROUP, "v1") if is_open else (name.group, name.version)
    return ConfigTypeName(group, version, name.kind or expected.__name__)
