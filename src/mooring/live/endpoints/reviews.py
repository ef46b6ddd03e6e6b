"""Questions to the API server about callers: whose token this is, and whether somebody may see a path."""

import hashlib
import secrets
from typing import Any, Protocol

import msgspec

from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.request_errors import Unreadable
from mooring.apiclient.transport import Params
from mooring.live.endpoints.callers import CallingUser
from mooring.live.endpoints.review_cache import ReviewCache

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_S = 10.0
_QPS, _BURST = 200.0, 400


class ReviewClient(Protocol):
    """What of ApiClient is used."""

    async def post(self, path: str, body: Any, params: Params | None = None) -> Any: ...


def review_client(access: ConnectionSettings, user_agent: str) -> ApiClient:
    """A client for reviews alone, so that callers cannot slow down binding."""
    return ApiClient(access, user_agent, _QPS, _BURST, limits=Limits(request_s=REVIEW_S, answer_bytes=1 << 20))


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status | None = None


class TokenReviews:
    """Tokens are not kept, only their keyed digests."""

    def __init__(self, client: ReviewClient, remembered: ReviewCache[bytes, CallingUser | None]) -> None:
        self._client = client
        self._remembered = remembered
        self._salt = secrets.token_bytes(32)

    async def user(self, token: str) -> CallingUser | None:
        """None: nobody's, or no longer good. Raises what the client raises."""
        digest = hashlib.blake2b(token.encode(), key=self._salt).digest()
        return await self._remembered.get(digest, lambda: self._ask(token))

    async def _ask(self, token: str) -> CallingUser | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = _status(await self._client.post(TOKEN_REVIEWS, body), "TokenReview")
        if not status.authenticated or status.user is None:
            return None
        told = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted((told.extra or {}).items()))
        return CallingUser(told.username, tuple(told.groups or ()), told.uid, extra)


class Permission(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""


class AccessReviews:
    def __init__(
        self, client: ReviewClient, remembered: "ReviewCache[tuple[CallingUser, str, str], Permission]"
    ) -> None:
        self._client = client
        self._remembered = remembered

    async def verdict(self, user: CallingUser, verb: str, path: str) -> Permission:
        """Whether a user may do this to a path. Raises what the client raises."""
        return await self._remembered.get((user, verb, path), lambda: self._ask(user, verb, path))

    async def _ask(self, user: CallingUser, verb: str, path: str) -> Permission:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name}
        spec["groups"] = [*user.groups]
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: [*values] for key, values in user.extra}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = _status(await self._client.post(ACCESS_REVIEWS, body), "SubjectAccessReview")
        return Permission(status.allowed, status.reason)


def _status(answer: Any, kind: str) -> _Status:
    try:
        return msgspec.convert(answer, _Review).status or _Status()
    except msgspec.ValidationError as error:
        raise Unreadable(f"the answer is no {kind}: {error}") from None
