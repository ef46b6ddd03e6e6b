"""What a write makes of an object in the simulated cluster, and what it is refused for."""

from dataclasses import replace

import msgspec

from mooring.apiserver.patches.json_patch import apply_merge_patch
from mooring.apiserver.patches.strategic_merge import apply_strategic_merge_patch
from mooring.framework.intents import Write
from mooring.model.meta import KubeObject

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class WriteRefused(Exception):
    """The object is gone, there already, or not the one that was meant; `code` is that of the HTTP answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def named(write: Write, ending: str) -> Write:
    """A creation with a name, where it only said how the name should begin."""
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    name = f"{body['metadata'].get('generateName', '')}{ending}"
    return replace(write, name=name, body={**body, "metadata": {**body["metadata"], "name": name}})


def after(write: Write, old: KubeObject | None) -> KubeObject:
    """The object as the write leaves it."""
    kind = write.kind.__name__.lower()
    if write.method == "POST" and old is not None:
        raise WriteRefused(f'{kind} "{write.name}" already exists', 409)
    if write.method != "POST" and old is None:
        raise WriteRefused(f'{kind} "{write.name}" not found', 404)
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    expected = body.get("metadata", {}).get("resourceVersion")
    if old is not None and expected and expected != old.metadata.resource_version:
        raise WriteRefused(f'Operation cannot be fulfilled on {kind} "{write.name}": {_MODIFIED}', 409)
    if write.method == "PATCH":
        known = {"kind": write.kind.__name__, **msgspec.to_builtins(old)}
        body = apply_strategic_merge_patch(known, body) if write.form == "strategic" else apply_merge_patch(known, body)
    return msgspec.convert(body, write.kind)
