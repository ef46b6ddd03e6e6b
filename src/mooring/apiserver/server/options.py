"""What a request says of how it is to be carried out: dry run, field manager, and how to delete."""

import msgspec

from mooring.api.api_errors import ApiError, field_forbidden, field_invalid, field_unsupported, invalid
from mooring.api.json_objects import JsonObject
from mooring.api.schema.typed_values import check_typed
from mooring.apiserver.admission.object_meta import Deletion, Propagation
from mooring.apiserver.resource_api import Requester
from mooring.apiserver.server.bodies import read_object
from mooring.apiserver.server.request import Request

_MANAGER_CHARS = 128
"""As kube-apiserver."""
_UNKNOWN_MANAGER = "unknown"
"""For a client that sends no user agent either."""
_PROPAGATIONS: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")


def by_whom(request: Request, kind: str = "PatchOptions", is_named: bool = False) -> Requester:
    """The writer that a request is from. `is_named`: it must give its name, its user agent does not count."""
    dry_run = request.query.get("dryRun", "")
    _check_dry_run(kind, dry_run)
    manager = request.query.get("fieldManager", "")
    if len(manager) > _MANAGER_CHARS or not manager.isprintable():
        why = f"may not be more than {_MANAGER_CHARS} printable characters"
        raise invalid(kind, "", [field_invalid("fieldManager", manager, why)], "meta.k8s.io")
    if not manager and not is_named:
        manager = request.user_agent.partition("/")[0][:_MANAGER_CHARS] or _UNKNOWN_MANAGER
    return Requester(manager, dry_run == "All")


def check_not_forced(request: Request) -> None:
    """Raises 422: only server-side apply can take fields from other managers."""
    if "force" in request.query:
        fault = field_forbidden("force", "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "", [fault], "meta.k8s.io")


def _check_dry_run(kind: str, *asked: str) -> None:
    """Raises 422 for anything but `All`."""
    for text in asked:
        if text not in ("", "All"):
            raise invalid(kind, "", [field_unsupported("dryRun", text, ("All",))], "meta.k8s.io")


class Preconditions(msgspec.Struct, rename="camel"):
    """Which object a deletion means."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """The body of a DELETE, or what an eviction carries along."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


def deletion(request: Request) -> tuple[Deletion, Requester]:
    """From the body if there is one, else from the query, and who deletes."""
    body = read_object(request.body, request.content_type, "DeleteOptions") if request.body.strip() else {}
    options = delete_options(body)
    if not body:
        options.grace_period_seconds = request.number("gracePeriodSeconds")
        options.propagation_policy = request.query.get("propagationPolicy", "")
        if "orphanDependents" in request.query:
            options.orphan_dependents = request.flag("orphanDependents")
    is_dry_run = by_whom(request, "DeleteOptions").is_dry_run or "All" in (options.dry_run or ())
    return how_to_delete(options), Requester(is_dry_run=is_dry_run)


def delete_options(body: JsonObject) -> DeleteOptions:
    """The options in a body. Raises 400, 422."""
    check_typed("meta.DeleteOptions", body, "DeleteOptions", "v1")
    options = msgspec.convert(body, DeleteOptions)
    _check_dry_run("DeleteOptions", *(options.dry_run or ()))
    return options


def how_to_delete(options: DeleteOptions) -> Deletion:
    """The options in the words of admission."""
    expected = options.preconditions or Preconditions()
    return Deletion(
        options.grace_period_seconds, _propagation(options), expected.uid or "", expected.resource_version or ""
    )


def _propagation(options: DeleteOptions) -> Propagation | None:
    """What becomes of dependents; None: the default of the kind. `orphanDependents` is its older form. Raises 422."""
    text = options.propagation_policy or ""
    if options.orphan_dependents is not None:
        if text:
            raise _invalid_options("orphanDependents and deletionPropagation cannot be both set", text)
        return "Orphan" if options.orphan_dependents else "Background"
    if not text:
        return None
    for known in _PROPAGATIONS:
        if known == text:
            return known
    fault = field_unsupported("propagationPolicy", text, ("Foreground", "Background", "Orphan", "nil"))
    raise invalid("DeleteOptions", "", [fault], "meta.k8s.io")


def _invalid_options(why: str, value: str) -> ApiError:
    return invalid("DeleteOptions", "", [field_invalid("propagationPolicy", value, why)], "meta.k8s.io")
