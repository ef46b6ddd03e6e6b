"""Which form of an answer a client wants, by its Accept header: the object, a table of it, its metadata alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mooring.model.api_errors import not_acceptable

Form = Literal["object", "table", "metadata"]

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML)

_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_ANY = ("*/*", "application/*", "")


@dataclass(frozen=True, slots=True)
class WantedMedia:
    """`is_aggregated`: discovery in one document instead of one for each group."""

    form: Form = "object"
    media: str = JSON
    is_aggregated: bool = False


@lru_cache(maxsize=256)
def wanted(accept: str) -> WantedMedia:
    """The first of the client's wishes that can be fulfilled. Raises 406 if none can."""
    for media, settings in _wishes(accept):
        if media not in OFFERED and media not in _ANY:
            continue
        chosen = YAML if media == YAML else JSON
        kind = settings.get("as", "")
        if not kind:
            return WantedMedia(media=chosen)
        if kind in _FORMS and settings.get("g") == "meta.k8s.io" and settings.get("v") == "v1":
            return WantedMedia(_FORMS[kind], chosen)
        if kind == "APIGroupDiscoveryList" and settings.get("v") == "v2":
            return WantedMedia(is_aggregated=True)
    raise not_acceptable(OFFERED)


def _wishes(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for wish in (accept or "*/*").split(","):
        media, *settings = (part.strip() for part in wish.split(";"))
        pairs = (setting.partition("=") for setting in settings)
        yield media.lower(), {name.strip(): value.strip() for name, _, value in pairs}
