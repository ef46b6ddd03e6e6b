"""Events about pods, as a dump or a live cluster has them. They change no decision, but they are the history of a pod."""

import msgspec
from msgspec import field

from mooring.inputs.documents import Document
from mooring.model.meta import KubeObject, Wire

KIND, API_VERSION = "Event", "v1"


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
    """An event about a pod; `times` is how often it happened, and `last_time` when it happened last."""

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
    def reporter(self) -> str:
        """The component that wrote the event, such as `default-scheduler`."""
        return self.reporting_component or (self.source.component if self.source is not None else "")

    def is_about(self, name: str, namespace: str, uid: str) -> bool:
        """Whether the event is about this pod: one with the same name that was deleted before has another uid."""
        about = self.involved_object
        return (about.name, about.namespace) == (name, namespace) and about.uid in ("", uid)


def pod_event_of(document: Document) -> PodEvent | None:
    """The event, if it is about a pod and has the form of an event. An event that cannot be read changes nothing."""
    if (document.kind, document.api_version) != (KIND, API_VERSION):
        return None
    try:
        body = document.body
        event = msgspec.json.decode(body, type=PodEvent) if isinstance(body, msgspec.Raw) else None
        event = event or msgspec.convert(body, PodEvent)
    except ValueError:
        return None
    return event if event.involved_object.kind == "Pod" else None
