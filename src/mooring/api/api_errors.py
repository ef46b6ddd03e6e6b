"""Errors of an API server: an exception that becomes a Status body, and a constructor for each of the usual errors.

The texts are kube-apiserver's, because clients show them to users and some match them. The embedded server raises these,
and the client raises the same class for a Status that it receives.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from mooring.kit.shown_text import quoted

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_BUDGET_EXHAUSTED = "Cannot evict pod as it would violate the pod's disruption budget."
_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool"}


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault of a request; `field` is a path as in the manifest."""

    reason: str = ""
    message: str = ""
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class StatusDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The object of an error. `kind` is a resource (`pods`), or a kind (`Pod`) where the object itself is invalid."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: int = msgspec.field(default=0, name="retryAfterSeconds")

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.to_builtins(self)
        return {**body, "causes": list(body["causes"])} if self.causes else body


class ApiError(Exception):
    """A request that failed. `continue_token` lets a client continue a list that has expired, without consistency."""

    def __init__(
        self, code: int, reason: str, message: str, details: StatusDetails | None = None, continue_token: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_token = continue_token

    @property
    def retry_after_s(self) -> int:
        """For the Retry-After header; 0 stands for none."""
        return self.details.retry_after_s if self.details else 0

    def status(self) -> dict[str, Any]:
        """The Status body, with its keys in the order in which kube-apiserver writes them."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1"}
        body["metadata"] = {"continue": self.continue_token} if self.continue_token else {}
        body["status"] = "Failure"
        body |= {name: text for name, text in (("message", self.message), ("reason", self.reason)) if text}
        if self.details is not None:
            body["details"] = self.details.body()
        return body | {"code": self.code}


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


_LONGEST_SHOWN = 253
"""The longest name that Kubernetes allows (a DNS subdomain)."""


def shortened(text: str) -> str:
    """Text of a client, for a message: what is too long to be a name is cut, so that messages and logs stay bounded."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


# ---- the object and its state


def not_found(resource: str, name: str, group: str = "") -> ApiError:
    return _of_object(404, "NotFound", StatusDetails(name, group, resource), "not found")


def already_exists(resource: str, name: str, group: str = "") -> ApiError:
    return _of_object(409, "AlreadyExists", StatusDetails(name, group, resource), "already exists")


def _of_object(code: int, reason: str, details: StatusDetails, what: str) -> ApiError:
    return ApiError(code, reason, f"{_named(details)} {what}", details)


def conflict(resource: str, name: str, why: str = MODIFIED, group: str = "") -> ApiError:
    """An update that does not fit the present state of the object."""
    details = StatusDetails(name, group, resource)
    return ApiError(409, "Conflict", f"Operation cannot be fulfilled on {_named(details)}: {why}", details)


def _named(details: StatusDetails) -> str:
    """The object in a message: `deployments.apps "web"`."""
    return f"{_qualified(details.kind, details.group)} {quoted(details.name)}"


def apply_conflict(message: str, causes: Sequence[Cause]) -> ApiError:
    """A server-side apply that would change fields that other managers own."""
    return ApiError(409, "Conflict", message, StatusDetails(causes=tuple(causes)))


def invalid(kind: str, name: str, faults: Sequence[Cause], group: str = "") -> ApiError:
    """An object that fails validation. The error has all faults; the message repeats none."""
    texts = list(dict.fromkeys(map(str, faults)))
    listed = f": {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}" if texts else ""
    message = f"{_qualified(kind, group)} {quoted(name)} is invalid{listed}"
    return ApiError(422, "Invalid", message, StatusDetails(name, group, kind, tuple(faults)))


def expired(message: str, continue_token: str = "") -> ApiError:
    return ApiError(410, "Expired", message, continue_token=continue_token)


def version_too_old(requested: int, oldest: int) -> ApiError:
    """A watch from a version that the history no longer has; `oldest` is the first version to watch from."""
    return expired(f"too old resource version: {requested} ({oldest})")


def version_too_large(requested: int, current: int) -> ApiError:
    """A read at a version that does not exist yet."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    return timeout(f"Too large resource version: {requested}, current: {current}", 1, (cause,))


# ---- the request


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def undecodable(value: object, go_place: str, prefix: str = "") -> ApiError:
    """A part of a body that has the wrong JSON type, in the words of Go's decoder, which kube-apiserver passes on."""
    found = "null" if value is None else _GO_KINDS.get(type(value), "number")
    return bad_request(f"{prefix}json: cannot unmarshal {found} into Go {go_place}")


def unprocessable() -> ApiError:
    """Parity: kube-apiserver rejects a patch that does not apply without a reason, and with empty details."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, StatusDetails())


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(resource: str, name: str, why: str, group: str = "") -> ApiError:
    whom = " ".join(filter(None, (_qualified(resource, group), name and quoted(name))))
    message = f"{whom} is forbidden: {why}" if whom else f"forbidden: {why}"
    return ApiError(403, "Forbidden", message, StatusDetails(name, group, resource))


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, StatusDetails())


def no_such_resource() -> ApiError:
    """The refusal of a path below a group and version that the server has."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", StatusDetails())


def not_acceptable(offered: Sequence[str]) -> ApiError:
    """The server can produce no media type of the Accept header."""
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}")


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return ApiError(415, "UnsupportedMediaType", message)


def request_entity_too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


@contextmanager
def shallow_enough() -> Iterator[None]:
    """Turn Python's RecursionError into a bad request: a body of a thousand nested lists must not stop the server. No
    object of Kubernetes is nested that deep."""
    try:
        yield
    except RecursionError:
        raise bad_request("exceeded max depth") from None


# ---- the server


def too_many_requests(message: str, retry_after_s: int = 0, causes: Sequence[Cause] = ()) -> ApiError:
    return ApiError(429, "TooManyRequests", message, StatusDetails(causes=tuple(causes), retry_after_s=retry_after_s))


def budget_exhausted(budget: str, needed: int, healthy: int) -> ApiError:
    """An eviction that a PodDisruptionBudget does not allow."""
    why = f"The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
    return too_many_requests(_BUDGET_EXHAUSTED, causes=(Cause("DisruptionBudget", why),))


def timeout(message: str, retry_after_s: int = 0, causes: Sequence[Cause] = ()) -> ApiError:
    details = StatusDetails(causes=tuple(causes), retry_after_s=retry_after_s)
    return ApiError(504, "Timeout", f"Timeout: {message}", details)


INTERNAL_ERROR = "InternalError"
"""The reason of what is no fault of the client: it may try again."""


def internal_error(message: str) -> ApiError:
    details = StatusDetails(causes=(Cause(message=message),))
    return ApiError(500, INTERNAL_ERROR, f"Internal error occurred: {message}", details)


def unexplained(message: str) -> ApiError:
    """Parity: an error that no layer of kube-apiserver converts: 500 without a reason (a Binding without a target)."""
    return ApiError(500, "", message)


def object_too_large() -> ApiError:
    """Parity: etcd's error for a request that is too large, which kube-apiserver passes on as it is."""
    return unexplained("etcdserver: request is too large")


# ---- faults of one field, the causes of `invalid`: upstream's field.Error


def field_required(field: str, detail: str = "") -> Cause:
    return _fault("FieldValueRequired", "Required value", field, detail)


def field_forbidden(field: str, detail: str) -> Cause:
    return _fault("FieldValueForbidden", "Forbidden", field, detail)


def field_invalid(field: str, value: object, detail: str) -> Cause:
    return _fault("FieldValueInvalid", f"Invalid value: {_shown(value)}", field, detail)


def field_unsupported(field: str, value: object, supported: Sequence[str]) -> Cause:
    known = f"supported values: {', '.join(map(quoted, supported))}" if supported else ""
    return _fault("FieldValueNotSupported", f"Unsupported value: {_shown(value)}", field, known)


def field_duplicate(field: str, value: object) -> Cause:
    return _fault("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", field)


def field_not_found(field: str, value: object, detail: str = "") -> Cause:
    return _fault("FieldValueNotFound", f"Not found: {_shown(value)}", field, detail)


def field_too_many(field: str, count: str, detail: str) -> Cause:
    return _fault("FieldValueTooMany", f"Too many: {count}", field, detail)


def field_too_long(field: str, limit_bytes: int) -> Cause:
    return _fault("FieldValueTooLong", "Too long", field, f"may not be more than {limit_bytes} bytes")


def _fault(reason: str, what: str, field: str, detail: str = "") -> Cause:
    return Cause(reason, f"{what}: {detail}" if detail else what, field)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
