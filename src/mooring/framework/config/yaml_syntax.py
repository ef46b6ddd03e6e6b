"""From the text of a configuration file, YAML or JSON, to plain JSON values, with the keys that were written twice."""

import json
from collections import Counter
from typing import Any, NoReturn

import msgspec
import yaml

from mooring.framework.config.problems import ConfigError
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
