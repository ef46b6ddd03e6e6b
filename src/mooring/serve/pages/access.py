"""Who may read which page: authentication first, then authorization, both as in kube-scheduler.

A client certificate or a bearer token (TokenReview) says who the caller is; a SubjectAccessReview says whether the caller may
read the path. The API server answers both, and its answers are kept for some seconds, so that a scraper does not cost a
review each time. The health pages are open to everyone.
"""

import asyncio
import hashlib
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api.api_errors import ApiError, forbidden, unauthorized
from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered, Unreadable
from mooring.kit.logs import Log
from mooring.kit.shown_text import quoted

# ---- callers and users


AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"


class CallingUser(msgspec.Struct, frozen=True):
    """A user as reviews name it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def known(self) -> "CallingUser":
        """The user with the group of all authenticated users."""
        return (
            self
            if AUTHENTICATED in self.groups
            else msgspec.structs.replace(self, groups=(*self.groups, AUTHENTICATED))
        )


ANONYMOUS = CallingUser("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as known before any review."""

    authorization: str = field(default="", repr=False)
    certified: CallingUser | None = None
    """The user of the client certificate, which TLS has verified."""
    is_local: bool = False
    """Whether the connection comes from this machine."""

    @property
    def token(self) -> str:
        """The bearer token; empty without one, and for other schemes."""
        scheme, _, token = self.authorization.strip().partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


def certified_user(certificate: Mapping[str, Any] | None) -> CallingUser | None:
    """The user of a certificate, as Kubernetes reads it: CN is the name, each O is a group.

    `certificate` is what `ssl` returns: a tuple of relative names, each a tuple of pairs.
    """
    subject = (certificate or {}).get("subject", ())
    parts = [pair for relative_name in subject for pair in relative_name]
    names = [value for key, value in parts if key == "commonName"]
    groups = tuple(value for key, value in parts if key == "organizationName")
    return CallingUser(names[-1], groups) if names and names[-1] else None


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (inner or found).is_loopback


# ---- settings


ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
"""The default of --authorization-always-allow-paths: kubelets probe them without credentials."""


class AccessSettings(msgspec.Struct, frozen=True):
    """The settings of access, as flags give them; the times are how long an answer is kept, in seconds."""

    always_allowed: Sequence[str] = ALWAYS_ALLOWED
    """Exact paths; one that ends in `*` stands for all paths with that prefix."""
    token_s: float = 10.0
    allowed_s: float = 10.0
    denied_s: float = 10.0

    def __post_init__(self) -> None:
        for path in self.always_allowed:
            if "*" in path[:-1]:
                raise ValueError(f"--authorization-always-allow-paths: a * may stand only at the end: {quoted(path)}")


# ---- reviews by the API server


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST = 1024
"""How many answers are kept: a caller that sends new tokens all the time pushes out old answers and fills no memory."""


class ReviewCache(Generic[K, V]):
    """Answers by key. Callers that ask for the same key at the same time share one request; a failure is not kept."""

    def __init__(self, lasts_s: Callable[[V], float], monotonic_s: Callable[[], float]) -> None:
        self._lasts_s = lasts_s
        self._monotonic_s = monotonic_s
        self._known: dict[K, tuple[float, V]] = {}
        self._asking: dict[K, asyncio.Future[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The kept answer, or that of `ask`. Raises what `ask` raises."""
        known = self._known.get(key)
        if known is not None and self._monotonic_s() < known[0]:
            return known[1]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(ask())
            asking.add_done_callback(lambda done: self._keep(key, done))
        # Shielded: a caller that disconnects must not cancel the request that others wait for.
        return await asyncio.shield(asking)

    def _keep(self, key: K, done: "asyncio.Future[V]") -> None:
        """Keep an answer, and drop the oldest ones beyond MOST."""
        del self._asking[key]
        self._known.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._monotonic_s() + self._lasts_s(done.result()), done.result())


TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_S = 10.0
"""How long one review may take; upstream's webhook timeout."""
_QPS, _BURST = 200.0, 400
"""Upstream's limits for the clients of delegated authentication and authorization."""


def review_client(access: ConnectionSettings, user_agent: str) -> ApiClient:
    """A client for reviews alone, so that callers of pages cannot delay binds."""
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


class Permission(msgspec.Struct, frozen=True):
    """The answer of a SubjectAccessReview; `reason` is shown to a caller that is refused."""

    allowed: bool
    reason: str = ""


class TokenReviews:
    """Finds the users of tokens. Keeps keyed digests of tokens, not tokens: a memory dump shows no credentials."""

    def __init__(self, client: ApiClient, settings: AccessSettings, monotonic_s: Callable[[], float]) -> None:
        self._client = client
        self._remembered: ReviewCache[bytes, CallingUser | None] = ReviewCache(
            lambda user: settings.token_s, monotonic_s
        )
        self._salt = secrets.token_bytes(32)

    async def user(self, token: str) -> CallingUser | None:
        """The user of a token; None if the API server does not accept it. Raises what the client raises."""
        digest = hashlib.blake2b(token.encode(), key=self._salt).digest()
        return await self._remembered.get(digest, lambda: self._ask(token))

    async def _ask(self, token: str) -> CallingUser | None:
        """One TokenReview."""
        status = await _review(self._client, TOKEN_REVIEWS, "TokenReview", {"token": token})
        if not status.authenticated or status.user is None:
            return None
        told = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted((told.extra or {}).items()))
        return CallingUser(told.username, tuple(told.groups or ()), told.uid, extra)


class AccessReviews:
    """Whether a user may do something to a path."""

    def __init__(self, client: ApiClient, settings: AccessSettings, monotonic_s: Callable[[], float]) -> None:
        self._client = client
        self._remembered: ReviewCache[tuple[CallingUser, str, str], Permission] = ReviewCache(
            lambda verdict: settings.allowed_s if verdict.allowed else settings.denied_s, monotonic_s
        )

    async def verdict(self, user: CallingUser, verb: str, path: str) -> Permission:
        """Raises what the client raises."""
        return await self._remembered.get((user, verb, path), lambda: self._ask(user, verb, path))

    async def _ask(self, user: CallingUser, verb: str, path: str) -> Permission:
        """One SubjectAccessReview for a path that is no resource."""
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name}
        spec["groups"] = [*user.groups]
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: [*values] for key, values in user.extra}
        status = await _review(self._client, ACCESS_REVIEWS, "SubjectAccessReview", spec)
        return Permission(status.allowed, status.reason)


async def _review(client: ApiClient, path: str, kind: str, spec: Mapping[str, Any]) -> _Status:
    """The status of a review that the API server answers."""
    api_version = path.removeprefix("/apis/").rpartition("/")[0]
    answer = await client.post(path, {"apiVersion": api_version, "kind": kind, "spec": spec})
    try:
        return msgspec.convert(answer, _Review).status or _Status()
    except msgspec.ValidationError as error:
        raise Unreadable(f"the answer is no {kind}: {error}") from None


# ---- the authorizer


class ReviewFailed(Exception):
    """The API server did not answer a review; the caller gets a 500."""


class RequestAuthorizer:
    """Without `tokens`, bearer tokens are ignored; without `reviews`, only callers on this machine are allowed."""

    def __init__(
        self, settings: AccessSettings, tokens: TokenReviews | None, reviews: AccessReviews | None, log: Log
    ) -> None:
        self._always = [path.removeprefix("/") for path in settings.always_allowed]
        self._tokens = tokens
        self._reviews = reviews
        self._log = log

    async def admit(self, caller: Caller, method: str, path: str) -> CallingUser:
        """The user of an allowed request. Raises ApiError (401, 403) or ReviewFailed."""
        user = await self.identify(caller)
        if MASTERS not in user.groups and not self._is_open(path):
            await self._authorize(user, caller, method.lower(), path)
        return user

    async def identify(self, caller: Caller) -> CallingUser:
        """The user of a request: from the certificate, from the token, or anonymous. Raises ApiError (401) for a
        bad token."""
        if caller.certified is not None:
            return caller.certified.known()
        if not caller.token or self._tokens is None:
            return ANONYMOUS
        try:
            user = await self._tokens.user(caller.token)
        except (ApiError, Unanswered, CredentialsError) as error:
            self._log.error("Unable to authenticate the request", error)
            raise unauthorized() from None
        if user is None:
            raise unauthorized()
        return user.known()

    def _is_open(self, path: str) -> bool:
        asked = path.removeprefix("/")
        return any(asked.startswith(known[:-1]) if known.endswith("*") else asked == known for known in self._always)

    async def _authorize(self, user: CallingUser, caller: Caller, verb: str, path: str) -> None:
        """Raises ApiError (403) or ReviewFailed unless the user may do this."""
        if self._reviews is None:
            # An addition: upstream refuses everyone here, also the developer who runs the scheduler on a workstation.
            verdict = Permission(caller.is_local, "without a kubeconfig for reviews only callers on this machine may")
        else:
            try:
                verdict = await self._reviews.verdict(user, verb, path)
            except (ApiError, Unanswered, CredentialsError) as error:
                self._log.error("Unable to authorize the request", error, path=path)
                raise ReviewFailed(str(error)) from None
        if not verdict.allowed:
            raise _denied(user, verb, path, verdict.reason)


def _denied(user: CallingUser, verb: str, path: str, reason: str) -> ApiError:
    what = f"User {quoted(user.name)} cannot {verb} path {quoted(path)}"
    # A browser may show the message: a path or a name must not become HTML.
    safe = what.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return forbidden("", "", f"{safe}: {reason}" if reason else safe)


def request_authorizer(
    settings: AccessSettings,
    authentication: ApiClient | None,
    authorization: ApiClient | None,
    monotonic_s: Callable[[], float],
    log: Log,
) -> RequestAuthorizer:
    """The authorizer that asks through these clients; None leaves out the check."""
    return RequestAuthorizer(
        settings,
        None if authentication is None else TokenReviews(authentication, settings, monotonic_s),
        None if authorization is None else AccessReviews(authorization, settings, monotonic_s),
        log,
    )
