"""The header of a dump: an object among others that says what the dump holds, so that it is read as the cluster was.

`mooring dump` writes it. A dump of `kubectl get` has none: its workloads without pods stand for pods that they would make.
"""

from collections.abc import Sequence

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.framework.config.settings import API_VERSION
from mooring.framework.profile.registry import Registry
from mooring.model.meta import Wire

KIND = "ClusterDump"


class DumpHeader(Wire):
    """What a reader has to know about the objects of a dump."""

    has_all_pods: bool = False
    """Whether every pod is in the dump: workloads without pods have none, and readers must not create them."""
    taken_at: str = ""
    """When the objects were read, in RFC 3339; empty if they came from files."""
    is_anonymous: bool = False
    missing: list[str] | None = None
    """Resources that the author of the dump could not list, as RBAC names them: `persistentvolumes`."""
    left_out_annotations: list[str] | None = None
    """Keys of annotations that some objects had and that the dump leaves out, as far as it names them."""

    def notes(self) -> list[str]:
        """What a user should know before reading answers."""
        if not self.missing:
            return []
        return [f"the dump has no {', '.join(self.missing)}: its author was not allowed to list them"]

    def notes_about(self, registry: Registry) -> list[str]:
        """A note for each plugin that reads annotations which the dump leaves out."""
        left_out = self.left_out_annotations or []
        if not left_out:
            return []
        undeclared, notes = {*registry.undeclared_readers()}, []
        for name in registry:
            declared = registry.annotation_keys(name)
            keys = left_out if name in undeclared else [key for key in left_out if key in declared]
            if keys:
                notes.append(f"plugin {name} {_MAY_READ if name in undeclared else _READS} {_some(keys)}; {_REMEDY}")
        return notes


_READS = "reads annotations that the dump leaves out:"
_MAY_READ = "reads annotations and declares none, and the dump leaves these out:"
_REMEDY = "keep those that the plugin reads with `mooring dump --keep-annotations KEY,...`"
_NAMED = 5


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")


def is_header(kind: str, api_version: str) -> bool:
    return (kind, api_version) == (KIND, API_VERSION)


def header_object(header: DumpHeader) -> JsonObject:
    written: JsonObject = msgspec.to_builtins(header)
    return {"apiVersion": API_VERSION, "kind": KIND, **written}


def read_header(written: JsonObject) -> DumpHeader | None:
    """None for an object that has another form: the caller reports it with its place in the file."""
    try:
        return msgspec.convert(written, DumpHeader)
    except msgspec.ValidationError:
        return None
