"""Objects and lists in the form that a client wants."""

from mooring.apiserver.server.media import WantedMedia
from mooring.apiserver.server.media import wanted as wanted_form
from mooring.apiserver.server.request import Request
from mooring.apiserver.tables import Include, table, table_of_one
from mooring.apiserver.watch import stamped
from mooring.model.api_errors import bad_request
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

_META = "meta.k8s.io/v1"
_INCLUDES: dict[str, Include] = {"": "Metadata", "None": "None", "Metadata": "Metadata", "Object": "Object"}


def included(request: Request) -> Include:
    """How much of each object a row of a table carries along."""
    text = request.query.get("includeObject", "")
    if text not in _INCLUDES:
        raise bad_request(f"includeObject: must be one of None, Metadata, Object, not {text!r}")
    return _INCLUDES[text]


def check_form_asked(request: Request) -> None:
    """Raises 406, or 400, before anything is done: a write whose answer cannot be given would be made and not told."""
    wanted_form(request.accept)
    included(request)


def one(resource: KindSpec, item: JsonObject, wanted: WantedMedia, include: Include, now_ns: int) -> JsonObject:
    if wanted.form == "table":
        return table_of_one(resource, item, now_ns, include)
    if wanted.form == "metadata":
        return metadata_of(item)
    return stamped(item, resource)


def many(
    resource: KindSpec,
    items: list[JsonObject],
    metadata: JsonObject,
    wanted: WantedMedia,
    include: Include,
    now_ns: int,
) -> JsonObject:
    if wanted.form == "table":
        return table(resource, items, now_ns, metadata, include)
    if wanted.form == "metadata":
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": _META,
            "metadata": metadata,
            "items": [metadata_of(item) for item in items],
        }
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": [_unstamped(item) for item in items],
    }


def metadata_of(item: JsonObject) -> JsonObject:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": item["metadata"]}


def _unstamped(item: JsonObject) -> JsonObject:
    """Items of a list do not say what they are: the list does."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
