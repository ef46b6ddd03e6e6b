"""Documents as JSON and YAML, for readers at a terminal and for programs: every character is there, and none is hidden."""

import json
from typing import Any

import yaml

from mooring.kit.shown_text import escaped, is_shown, replaced, shown_json


def json_document(document: Any) -> str:
    """The document as indented JSON."""
    return shown_json(json.dumps(document, indent=2, ensure_ascii=False))


def yaml_document(document: Any, sort_keys: bool = False) -> str:
    """The document as YAML, with a line end."""
    text = yaml.dump(document, Dumper=_ShownDumper, sort_keys=sort_keys, allow_unicode=True)
    return "\n".join(replaced(line, escaped) for line in text.split("\n"))


class _ShownDumper(yaml.SafeDumper):
    """Writes text with hidden characters in double quotes, where YAML has the escapes of `escaped`."""


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if is_shown(text) else '"')


_ShownDumper.add_representer(str, _represented)
