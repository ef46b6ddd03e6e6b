"""The Node manifest from which nodes are made."""

from typing import Any

import yaml

from mooring.cli.refusal import refuse
from mooring.model.validation.problem import Problem, show


def read_node_template(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            written = yaml.safe_load(file)
    except OSError as fault:
        refuse(f"{path}: cannot be read: {fault.strerror}")
    except yaml.YAMLError as fault:
        refuse(f"{path}: {fault}")
    if not isinstance(written, dict) or written.get("kind", "Node") != "Node":
        refuse(Problem("", show(written), "one Node manifest", file=path))
    return written
