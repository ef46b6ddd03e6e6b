"""From the text of a configuration file, YAML or JSON, to plain JSON values, with the keys that were written twice."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from mooring.framework.config.problems import ConfigError

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # libyaml is an option of PyYAML
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]


MAX_DEPTH = 1000


class JsonObject(dict[str, Any]):
    """An object that remembers which of its keys were written more than once (the last one counts)."""

    repeated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    value: Any
    """What json.loads would give, but objects are JsonObjects."""
    faults: list[str] = field(default_factory=list)
    """What strict decoding objects to in the text itself."""


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


def _object_of(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = JsonObject(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        made.repeated = tuple(key for key, count in counts.items() if count > 1)
    return made


class _Loader(_BaseLoader):
    """YAML as upstream's parser reads it: no timestamps, and 1:30 is a text, not ninety."""


_KEPT_TAGS = {"bool", "null", "merge", "value"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag.rpartition(":")[2] in _KEPT_TAGS]
    for first, rules in _BaseLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?(?:[0-9][0-9_]*)?\.?[0-9]+(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)


def _parse_yaml(text: str) -> ConfigDocument:
    _refuse_deep(text)
    loader = _Loader(text)
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return ConfigDocument(None)
        twice = list(_repeated_keys(node))
        faults = ["yaml: unmarshal errors:\n" + "\n".join(twice)] if twice else []
        return ConfigDocument(_plain(loader.construct_document(node)), faults)
    except yaml.YAMLError as error:
        _refuse(f"yaml: {_yaml_fault(error)}")
    finally:
        loader.dispose()


def _refuse_deep(text: str) -> None:
    """The C composer overflows the stack on deep nesting, so that is found out first, without composing anything."""
    depth = 0
    try:
        for event in yaml.parse(text, _BaseLoader):
            if isinstance(event, yaml.DocumentEndEvent):
                return  # only the first document counts
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                _refuse(f"yaml: line {event.start_mark.line + 1}: more than {MAX_DEPTH} levels of nesting")
    except yaml.YAMLError as error:
        _refuse(f"yaml: {_yaml_fault(error)}")


def _repeated_keys(node: yaml.Node) -> Iterator[str]:
    """Parity: the line is the one where the second value stands."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated_keys(item)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        yield from _repeated_keys(value)
        name = str(key.value)
        if name in seen and name != "<<":
            yield f'  line {value.start_mark.line + 1}: key "{name}" already set in map'
        seen.add(name)


def _plain(value: Any) -> Any:
    """Parity: upstream turns YAML into JSON first, which sorts the keys and writes 16.0 as 16."""
    if isinstance(value, dict):
        named = {_key(key): item for key, item in value.items()}
        return JsonObject({key: _plain(named[key]) for key in sorted(named)})
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


def _yaml_fault(error: yaml.YAMLError) -> str:
    """Parity: upstream names no line for the first one, and the line before for what only its parser finds."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return f"{where}{error.problem or 'unknown problem parsing YAML content'}"
