"""Who may see which page: first who the caller is, then what they may do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.request_errors import Unanswered
from mooring.kit.logs import Log
from mooring.live.endpoints.callers import ANONYMOUS, MASTERS, Caller, CallingUser
from mooring.live.endpoints.review_cache import ReviewCache
from mooring.live.endpoints.reviews import AccessReviews, Permission, ReviewClient, TokenReviews
from mooring.model.api_errors import ApiError, forbidden, quoted, unauthorized

ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")


class ReviewFailed(Exception):
    """Whether the caller may see the page cannot be found out just now."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    always_allowed: Sequence[str] = ALWAYS_ALLOWED
    """Exact paths; one that ends in `*` stands for all that begin like it."""
    token_s: float = 10.0
    allowed_s: float = 10.0
    denied_s: float = 10.0

    def __post_init__(self) -> None:
        for path in self.always_allowed:
            if "*" in path[:-1]:
                raise ValueError(f"--authorization-always-allow-paths: a * may stand only at the end: {quoted(path)}")


class RequestAuthorizer:
    """Without `tokens`, bearer tokens say nothing; without `reviews`, only callers on this machine get further."""

    def __init__(
        self, settings: AccessSettings, tokens: TokenReviews | None, reviews: AccessReviews | None, log: Log
    ) -> None:
        self._always = [path.removeprefix("/") for path in settings.always_allowed]
        self._tokens = tokens
        self._reviews = reviews
        self._log = log

    async def admit(self, caller: Caller, method: str, path: str) -> CallingUser:
        """The user who gets in. Raises ApiError (401, 403), or ReviewFailed."""
        user = await self.identify(caller)
        if MASTERS not in user.groups and not self._is_open(path):
            await self._authorize(user, caller, method.lower(), path)
        return user

    async def identify(self, caller: Caller) -> CallingUser:
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
        if self._reviews is None:
            # Our addition: upstream lets nobody in, and then nobody can look at a scheduler that they run at their desk.
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
    # So that a path or a name cannot become part of a web page.
    safe = what.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return forbidden("", "", f"{safe}: {reason}" if reason else safe)


def open_door(
    settings: AccessSettings,
    authentication: ReviewClient | None,
    authorization: ReviewClient | None,
    monotonic_s: Callable[[], float],
    log: Log,
) -> RequestAuthorizer:
    """A doorkeeper that asks through these clients, where there are any."""
    tokens, reviews = None, None
    if authentication is not None:
        tokens = TokenReviews(authentication, ReviewCache(lambda user: settings.token_s, monotonic_s))
    if authorization is not None:
        verdicts: ReviewCache[tuple[CallingUser, str, str], Permission] = ReviewCache(
            lambda verdict: settings.allowed_s if verdict.allowed else settings.denied_s, monotonic_s
        )
        reviews = AccessReviews(authorization, verdicts)
    return RequestAuthorizer(settings, tokens, reviews, log)
