"""From the text of a configuration, YAML or JSON, to its typed form, or to the error that upstream would give for it.
Keys that were written twice are found on the way.

The order of what can go wrong is upstream's: syntax, version and kind, a value of the wrong type, the arguments of
plugins, and last what only strictness forbids. Nothing is defaulted or validated here.
"""

import base64
import binascii
import json
import types
from collections import Counter
from functools import cache
from typing import Annotated, Any, Final, NoReturn, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from mooring.framework.config.args import ARGS_KINDS, Args, args_kind
from mooring.framework.config.durations import Duration
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import (
    API_VERSION,
    GROUP,
    KIND,
    GoType,
    KubeSchedulerConfiguration,
    PluginConfig,
    Section,
)
from mooring.kit.yaml_reader import STANDARD_LIMITS, Repeat, TooDeep, TooManyAliases, YamlFault, read_documents


class DecodedObject(dict[str, Any]):
    """An object that remembers which of its keys were written more than once (the last one counts)."""

    repeated: tuple[str, ...] = ()


class ConfigDocument(msgspec.Struct, frozen=True):
    value: Any
    """The decoded value, as json.loads returns it, but with a DecodedObject for each object."""
    faults: list[str] = msgspec.field(default_factory=list)
    """Errors that strict decoding finds in the text itself."""


def parse(text: str) -> ConfigDocument:
    """Read JSON if it looks like JSON, else the first document of a YAML stream."""
    try:
        return _parse_json(text) if text.lstrip().startswith("{") else _parse_yaml(text)
    except RecursionError:
        _refuse("yaml: document contains excessive aliasing")


def _refuse(why: str) -> NoReturn:
    raise ConfigError("decode", [why])


def _parse_json(text: str) -> ConfigDocument:
    try:
        return ConfigDocument(json.loads(text, object_pairs_hook=_object_of))
    except json.JSONDecodeError as error:
        _refuse(f"couldn't get version/kind; json parse error: {error}")


def _object_of(pairs: list[tuple[str, Any]]) -> DecodedObject:
    made = DecodedObject(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        made.repeated = tuple(key for key, count in counts.items() if count > 1)
    return made


def _parse_yaml(text: str) -> ConfigDocument:
    """Parity: the first document of the stream counts, and what follows is not even parsed."""
    repeats: list[Repeat] = []
    try:
        value = next(read_documents(text, on_repeat=repeats.append), None)
    except YamlFault as fault:
        _refuse(f"yaml: {_yaml_fault(fault)}")
    twice = [f'  line {repeat.value_line}: key "{repeat.way[-1]}" already set in map' for repeat in repeats]
    faults = ["yaml: unmarshal errors:\n" + "\n".join(twice)] if twice else []
    return ConfigDocument(_plain(value), faults)


def _plain(value: Any) -> Any:
    """Parity: upstream turns YAML into JSON first, which sorts the keys and writes 16.0 as 16."""
    if isinstance(value, dict):
        return DecodedObject({key: _plain(value[key]) for key in sorted(value)})
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _yaml_fault(fault: YamlFault) -> str:
    """Parity: upstream names no line for the first one, and the line before for what only its parser finds."""
    error = fault.error
    if isinstance(fault, TooManyAliases):
        return "document contains excessive aliasing"
    if isinstance(fault, TooDeep):
        return f"line {fault.line}: more than {STANDARD_LIMITS.depth} levels of nesting"
    if error is None:
        return f"line {fault.line}: {fault}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return f"{where}{error.problem or 'unknown problem parsing YAML content'}"


# ---- Strict decoding of JSON values into typed sections, with the complaints that Go's decoder would have.
#
# Two kinds of complaint: an unknown or repeated field is *strict*, and all of them are collected; a value of the
# wrong type is a *fault*, and the first one is reported.


S = TypeVar("S", bound=msgspec.Struct)

_GO_SCALARS: dict[Any, str] = {
    str: "string",
    bool: "bool",
    int: "int32",
    float: "float32",
    bytes: "[]uint8",
    Duration: "string",
    dict: "map[string]string",
}
"""Go's name for the type of a field, unless a GoType says otherwise: most numbers of the configuration are int32."""
_BITS = {"int32": 32, "int64": 64}
"""Bounds of whole numbers."""


class _Keep:
    """The field keeps its default: it was null or could not be read."""


_KEEP: Final = _Keep()


class FieldPlace(msgspec.Struct, frozen=True):
    """Where a value stands: `path` is what strict complaints show, owner and fields are what Go names in type
    errors."""

    path: str = ""
    owner: str = ""
    fields: tuple[str, ...] = ()

    def member(self, owner: str, name: str) -> "FieldPlace":
        """The place of a field of this section."""
        return FieldPlace(f"{self.path}.{name}" if self.path else name, owner, (*self.fields, name))

    def item(self, i: int) -> "FieldPlace":
        """The place of an item. Parity: Go's type errors do not name the index."""
        return msgspec.structs.replace(self, path=f"{self.path}[{i}]")

    def target(self, go_type: str) -> str:
        """The end of Go's type error."""
        if not self.fields:
            return f"Go value of type {go_type}"
        return f"Go struct field {self.owner}.{'.'.join(self.fields)} of type {go_type}"


class Hint(msgspec.Struct, frozen=True):
    """A type annotation taken apart."""

    type: Any
    go: str
    is_optional: bool = False
    item: "Hint | None" = None


@cache
def _hint(annotation: Any) -> Hint:
    """Take an annotation apart, once for each: `Annotated` gives the Go name, `X | None` the option, `list[X]` the
    item."""
    origin, parameters = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        go = next((mark.name for mark in parameters[1:] if isinstance(mark, GoType)), None)
        inner = _hint(parameters[0])
        return msgspec.structs.replace(inner, go=go) if go else inner
    if origin in (Union, types.UnionType):
        (inner,) = (_hint(option) for option in parameters if option is not type(None))
        return msgspec.structs.replace(inner, is_optional=True)
    if origin is list:
        item = _hint(parameters[0])
        return Hint(list, f"[]{item.go}", item=item)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return Hint(annotation, f"{getattr(annotation, 'go_package', 'v1')}.{_go_name(annotation)}")
    plain = origin or annotation
    return Hint(plain, _GO_SCALARS.get(plain, ""))


def _go_name(section: type[msgspec.Struct]) -> str:
    """Upstream's name of the type."""
    return getattr(section, "go_name", "") or section.__name__


@cache
def _members(section: type[msgspec.Struct]) -> dict[str, tuple[str, Hint]]:
    """Name in the file -> attribute and type."""
    return {info.encode_name: (info.name, _hint(info.type)) for info in msgspec.structs.fields(section)}


class StrictReader(msgspec.Struct):
    """One decoding. Afterwards `fault` and `strict` say what was wrong; the result may be used only if both are
    empty."""

    strict: list[str] = msgspec.field(default_factory=list)
    fault: str = ""

    def read(self, section: type[S], raw: Any) -> S:
        return self._section(section, raw if raw is not None else {}, FieldPlace())

    def _section(self, section: type[S], raw: Any, place: FieldPlace) -> S:
        """Read the fields that are there, in the order of the file: the first fault is the one that Go would meet
        first."""
        if not isinstance(raw, dict):
            self._mismatch(raw, _hint(section).go, place)
            return section()
        self._note_repeated(raw, place)
        members, given, owner = _members(section), {}, _go_name(section)
        for key, value in raw.items():
            there = place.member(owner, key)
            if key not in members:
                self._complain(f'unknown field "{there.path}"')
                continue
            attribute, hint = members[key]
            found = self._value(hint, value, there)
            if found is not _KEEP:
                given[attribute] = found
        return section(**given)

    def _note_repeated(self, raw: dict[str, Any], place: FieldPlace) -> None:
        for key in raw.repeated if isinstance(raw, DecodedObject) else ():
            self._complain(f'duplicate field "{place.member("", key).path}"')

    def _complain(self, complaint: str) -> None:
        """Each complaint once, as Go's strict decoder."""
        if complaint not in self.strict:
            self.strict.append(complaint)

    def _fail(self, fault: str) -> _Keep:
        """Note a fault, unless there is one already, and let the field keep its default."""
        self.fault = self.fault or fault
        return _KEEP

    def _mismatch(self, raw: Any, go_type: str, place: FieldPlace) -> _Keep:
        return self._fail(f"json: cannot unmarshal {json_kind(raw)} into {place.target(go_type)}")

    def _value(self, hint: Hint, raw: Any, place: FieldPlace) -> Any:
        """Decode a value by the type of its field. Parity: null keeps the default of the field, as in Go."""
        if hint.type is Any:
            return raw
        if raw is None:
            # Parity: Go hands null to a duration's own parser, which takes it for the empty text.
            is_bare_duration = hint.type is Duration and not hint.is_optional
            return self._fail('time: invalid duration ""') if is_bare_duration else _KEEP
        if hint.type is list:
            return self._list(hint, raw, place)
        if hint.type is dict:
            return self._texts(hint, raw, place)
        if isinstance(hint.type, type) and issubclass(hint.type, msgspec.Struct):
            return self._section(hint.type, raw, place)
        return self._scalar(hint, raw, place)

    def _list(self, hint: Hint, raw: Any, place: FieldPlace) -> Any:
        """Parity: null as an item is the zero value of its type."""
        if not isinstance(raw, list) or hint.item is None:
            return self._mismatch(raw, hint.go, place)
        found = [self._value(hint.item, item, place.item(i)) for i, item in enumerate(raw)]
        return [hint.item.type() if item is _KEEP else item for item in found]

    def _texts(self, hint: Hint, raw: Any, place: FieldPlace) -> Any:
        """A map of strings; null as a value is empty."""
        if not isinstance(raw, dict):
            return self._mismatch(raw, hint.go, place)
        self._note_repeated(raw, place)
        for value in raw.values():
            if not isinstance(value, str | None):
                self._mismatch(value, "string", place)
        return {key: value or "" for key, value in raw.items()}

    def _scalar(self, hint: Hint, raw: Any, place: FieldPlace) -> Any:
        """A number, a boolean, or what is written as text: strings, durations, base64."""
        if hint.type is int:
            return self._integer(hint.go, raw, place)
        if hint.type is float:
            is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
            return float(raw) if is_number else self._mismatch(raw, hint.go, place)
        if hint.type is bool:
            return raw if isinstance(raw, bool) else self._mismatch(raw, hint.go, place)
        if not isinstance(raw, str):
            return self._mismatch(raw, hint.go, place)
        try:
            return _from_text(hint.type, raw)
        except ValueError as error:
            return self._fail(str(error))

    def _integer(self, go_type: str, raw: Any, place: FieldPlace) -> Any:
        """Parity: a number with a fraction is refused, as Go does; 16.0 came here as 16 (syntax.py)."""
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return self._mismatch(raw, go_type, place)
        bound = 1 << (_BITS[go_type] - 1)
        if isinstance(raw, float) or not -bound <= raw < bound:
            return self._fail(f"json: cannot unmarshal number {raw} into {place.target(go_type)}")
        return raw


def _from_text(kind: Any, text: str) -> Any:
    """Raises ValueError with Go's words."""
    if kind is Duration:
        return Duration.parse(text)
    if kind is not bytes:
        return text
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data: {error}") from None


def json_kind(raw: Any) -> str:
    """Name of the type of a JSON value in the decoding errors of Go."""
    names = ((bool, "bool"), (int | float, "number"), (str, "string"), (list, "array"))
    return next((name for kind, name in names if isinstance(raw, kind)), "object")


_KINDS: dict[str, type[Section]] = {KIND: KubeSchedulerConfiguration, **ARGS_KINDS}
"""Kinds that may stand at the top of a file. Arguments are among them, because upstream decodes them first and then reports
that they are no configuration."""
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
