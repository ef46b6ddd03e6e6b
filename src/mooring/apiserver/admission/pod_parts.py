"""Subresources that let a writer change one part of an object, which the object itself does not let change."""

from mooring.model.api_errors import bad_request
from mooring.model.json_objects import JsonObject


def take_part(subresource: str, old: JsonObject, new: JsonObject) -> JsonObject:
    """`old` with the part of `new` that the subresource is for."""
    spec, given = old.get("spec", {}), new.get("spec") or {}
    match subresource:
        case "ephemeralcontainers":
            taken = {**spec, "ephemeralContainers": given.get("ephemeralContainers") or []}
        case "resize":
            taken = {**spec, "containers": _resized(spec.get("containers", []), given.get("containers") or [])}
        case "finalize":
            taken = {**spec, "finalizers": given.get("finalizers") or []}
        case _:
            raise bad_request(f"{subresource} cannot be written")
    changed = {**old, "spec": taken}
    if taken != spec and "generation" in old["metadata"]:
        changed["metadata"] = {**old["metadata"], "generation": old["metadata"]["generation"] + 1}
    return changed


def _resized(held: list[JsonObject], given: list[JsonObject]) -> list[JsonObject]:
    """A container that is not named keeps what it has."""
    resources = {container.get("name"): container.get("resources") or {} for container in given}
    return [{**container, "resources": resources.get(container["name"], container["resources"])} for container in held]
