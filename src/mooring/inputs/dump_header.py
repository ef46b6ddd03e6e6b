"""Parts of a dump that decisions do not read: events about pods and their controllers, and a header.

The header says what the dump holds, so that it is read as the cluster was. `mooring dump` writes it. A dump of `kubectl get`
has none: its workloads without pods stand for pods that they would make.
"""

import msgspec
from msgspec import field

from mooring.api.json_objects import JsonObject
from mooring.framework.config.settings import API_VERSION
from mooring.framework.profile.registry import Registry
from mooring.inputs.documents import Document
from mooring.kit.words import some
from mooring.model.meta import KubeObject, Wire

# ---- Events about pods, and those in which controllers say that they could not create pods. They change no decision, but
# they are the history of a pod, and say why there is none.

EVENT, EVENT_VERSION = "Event", "v1"
FAILED_CREATE = "FailedCreate"
"""The reason of events in which a controller says that it could not create something: a quota or an admission rejects it."""


class EventSource(Wire):
    component: str = ""


class RepeatedEvent(Wire):
    count: int = 0
    last_observed_time: str | None = None


class InvolvedObject(Wire):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PodEvent(KubeObject):
    """An event about a pod, or about pods that a controller could not create; `times` is how often it happened, and
    `last_time` when it happened last."""

    involved_object: InvolvedObject = field(default_factory=InvolvedObject)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    series: RepeatedEvent | None = None
    source: EventSource | None = None
    reporting_component: str = ""
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None

    @property
    def pod_key(self) -> str:
        return f"{self.involved_object.namespace}/{self.involved_object.name}"

    @property
    def times(self) -> int:
        """A new event has a series after its first repetition; an old one has a count."""
        return self.series.count if self.series is not None else self.count or 1

    @property
    def first_time(self) -> str:
        """RFC 3339; empty if the event has no time."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp or ""

    @property
    def last_time(self) -> str:
        repeated = self.series.last_observed_time if self.series is not None else None
        return repeated or self.last_timestamp or self.first_time

    @property
    def is_failed_create(self) -> bool:
        """Whether a controller says with the event that it could not create something."""
        return self.reason == FAILED_CREATE and self.involved_object.kind != "Pod"

    def is_about(self, item: KubeObject, kind: str = "Pod") -> bool:
        """Whether the event is about this object: one with the same name that was deleted before has another uid."""
        about = self.involved_object
        named = (about.kind, about.name, about.namespace) == (kind, item.name, item.namespace)
        return named and about.uid in ("", item.uid)


def is_event(kind: str, api_version: str) -> bool:
    """Whether an object of a dump is an event."""
    return (kind, api_version) == (EVENT, EVENT_VERSION)


def pod_event_of(document: Document) -> PodEvent | None:
    """The event, if it has the form of one and is about a pod, or about pods that a controller could not create. An event
    that cannot be read changes nothing."""
    if not is_event(document.kind, document.api_version):
        return None
    try:
        body = document.body
        event = msgspec.json.decode(body, type=PodEvent) if isinstance(body, msgspec.Raw) else None
        event = event or msgspec.convert(body, PodEvent)
    except ValueError:
        return None
    return event if event.involved_object.kind == "Pod" or event.is_failed_create else None


# ---- the header

KIND = "ClusterDump"


class DumpHeader(Wire):
    """Facts about the objects of a dump that its reader needs."""

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
        """Notes for the user about resources that the dump does not have."""
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
                notes.append(
                    f"plugin {name} {_MAY_READ if name in undeclared else _READS} {some(keys, _NAMED)}; {_REMEDY}"
                )
        return notes


_READS = "reads annotations that the dump leaves out:"
_MAY_READ = "reads annotations and declares none, and the dump leaves these out:"
_REMEDY = "keep those that the plugin reads with `mooring dump --keep-annotations KEY,...`"
_NAMED = 5


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
