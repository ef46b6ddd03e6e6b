"""Who gets in: tokens, certificates, reviews, what is remembered of them, and refusals word for word."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from fake_client import FakeClient
from mooring.api.api_errors import ApiError, internal_error
from mooring.apiclient.http_requests import TimedOut
from mooring.kit.logs import Log
from mooring.serve.pages.access import (
    ANONYMOUS,
    MOST,
    AccessSettings,
    Caller,
    CallingUser,
    RequestAuthorizer,
    ReviewCache,
    ReviewFailed,
    certified_user,
    is_loopback,
    request_authorizer,
)

T = TypeVar("T")

SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))
LOCAL, REMOTE = Caller(is_local=True), Caller()


@dataclass
class FakeReviews(FakeClient):
    """Knows the tokens `t-<name>`, and lets `alice` see /metrics."""

    asked: list[tuple[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        self.asked.append((path.rsplit("/", 1)[1], body["spec"]))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {"status": self._token(body["spec"]) if "token" in body["spec"] else self._access(body["spec"])}

    def _token(self, spec: Any) -> Any:
        if not spec["token"].startswith("t-"):
            return {"error": "invalid bearer token"}
        user = {"username": spec["token"][2:], "uid": "u1", "groups": ["g"], "extra": {"k": ["v"]}}
        return {"authenticated": True, "user": user}

    def _access(self, spec: Any) -> Any:
        is_allowed = spec["user"] == "alice" and spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return {"allowed": True} if is_allowed else {"allowed": False, "reason": "RBAC says no"}

    def count(self, kind: str) -> int:
        return sum(1 for asked, _ in self.asked if asked == kind)


@dataclass
class Door:
    reviews: FakeReviews = field(default_factory=FakeReviews)
    now_s: float = 0.0

    def keeper(self, settings: AccessSettings | None = None, is_alone: bool = False) -> RequestAuthorizer:
        client = None if is_alone else self.reviews
        return request_authorizer(settings or AccessSettings(), client, client, lambda: self.now_s, SILENT)


def bearer(token: str) -> Caller:
    return Caller(f"Bearer {token}")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def refused(work: Coroutine[Any, Any, Any]) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as caught:
        run(work)
    return caught.value.code, caught.value.reason, caught.value.message


# ---- who


def test_a_token_is_reviewed_and_what_it_says_goes_into_the_access_review() -> None:
    door = Door()
    user = run(door.keeper().admit(bearer("t-alice"), "GET", "/metrics"))
    assert user == CallingUser("alice", ("g", "system:authenticated"), "u1", (("k", ("v",)),))
    assert door.reviews.asked == [
        ("tokenreviews", {"token": "t-alice"}),
        (
            "subjectaccessreviews",
            {
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                "user": "alice",
                "groups": ["g", "system:authenticated"],
                "uid": "u1",
                "extra": {"k": ["v"]},
            },
        ),
    ]


def test_a_bad_token_is_refused_even_where_everybody_may_go() -> None:
    assert refused(Door().keeper().admit(bearer("bad"), "GET", "/healthz")) == (401, "Unauthorized", "Unauthorized")


def test_a_token_that_cannot_be_reviewed_is_refused() -> None:
    door = Door(FakeReviews(error=TimedOut("POST: no answer")))
    assert refused(door.keeper().admit(bearer("t-alice"), "GET", "/healthz"))[0] == 401


@pytest.mark.parametrize("authorization", ["", "Basic YTpi", "Bearer", "Bearer   "])
def test_without_a_token_callers_are_anonymous(authorization: str) -> None:
    assert run(Door().keeper().identify(Caller(authorization))) == ANONYMOUS


def test_the_scheme_may_be_written_in_any_case() -> None:
    assert run(Door().keeper().identify(Caller("bEaReR t-bob"))).name == "bob"


def test_a_certificate_counts_before_a_token() -> None:
    door = Door()
    caller = Caller("Bearer bad", CallingUser("carol", ("ops",)))
    assert run(door.keeper().identify(caller)) == CallingUser("carol", ("ops", "system:authenticated"))
    assert door.reviews.asked == []


def test_a_certificate_names_the_user_and_the_groups() -> None:
    subject = ((("organizationName", "a"),), (("organizationName", "b"), ("countryName", "x")), (("commonName", "me"),))
    assert certified_user({"subject": subject}) == CallingUser("me", ("a", "b"))
    assert certified_user({"subject": ((("organizationName", "a"),),)}) is None
    assert certified_user({}) is None
    assert certified_user(None) is None


ADDRESSES = {"127.0.0.1": True, "127.8.8.8": True, "::1": True, "::ffff:127.0.0.1": True} | dict.fromkeys(
    ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%lo", "localhost", ""], False
)


@pytest.mark.parametrize(("address", "expected"), ADDRESSES.items(), ids=map(repr, ADDRESSES))
def test_which_addresses_are_this_machine(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


# ---- what


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_probes_need_no_permission(path: str) -> None:
    door = Door()
    assert run(door.keeper().admit(REMOTE, "GET", path)) == ANONYMOUS
    assert door.reviews.asked == []


@pytest.mark.parametrize("path", ["/healthz/ping", "/healthz/", "/healthzz", "/metrics"])
def test_other_paths_do(path: str) -> None:
    code, reason, message = refused(Door().keeper().admit(REMOTE, "GET", path))
    assert (code, reason) == (403, "Forbidden")
    assert message == f'forbidden: User "system:anonymous" cannot get path "{path}": RBAC says no'


def test_the_refusal_has_upstreams_shape() -> None:
    with pytest.raises(ApiError) as caught:
        run(Door().keeper().admit(REMOTE, "DELETE", "/metrics"))
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "system:anonymous" cannot delete path "/metrics": RBAC says no',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


def test_a_path_does_not_become_a_web_page() -> None:
    assert "<script>" not in refused(Door().keeper().admit(REMOTE, "GET", "/<script>"))[2]


def test_a_star_opens_all_that_begins_alike() -> None:
    keeper = Door().keeper(AccessSettings(always_allowed=("/healthz*", "metrics")))
    for path in ("/healthz", "/healthz/ping", "/metrics"):
        assert run(keeper.admit(REMOTE, "GET", path)) == ANONYMOUS
    assert refused(keeper.admit(REMOTE, "GET", "/livez"))[0] == 403


def test_a_star_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="a \\* may stand only at the end"):
        AccessSettings(always_allowed=("/a*b",))


def test_masters_may_do_everything() -> None:
    door = Door()
    run(door.keeper().admit(Caller(certified=CallingUser("root", ("system:masters",))), "PUT", "/debug/flags/v"))
    assert door.reviews.asked == []


def test_an_access_review_that_fails_is_neither_yes_nor_no() -> None:
    door = Door(FakeReviews(error=internal_error("etcd")))
    with pytest.raises(ReviewFailed):
        run(door.keeper().admit(REMOTE, "GET", "/metrics"))


def test_without_reviews_only_this_machine_gets_further() -> None:
    """Our addition; upstream lets nobody in."""
    keeper = Door().keeper(is_alone=True)
    assert run(keeper.admit(LOCAL, "GET", "/metrics")) == ANONYMOUS
    assert run(keeper.admit(REMOTE, "GET", "/healthz")) == ANONYMOUS
    assert refused(keeper.admit(REMOTE, "GET", "/metrics")) == (
        403,
        "Forbidden",
        'forbidden: User "system:anonymous" cannot get path "/metrics": '
        "without a kubeconfig for reviews only callers on this machine may",
    )
    assert refused(keeper.admit(bearer("t-alice"), "GET", "/metrics"))[0] == 403, "tokens say nothing then"


def test_with_reviews_this_machine_has_no_privilege() -> None:
    assert refused(Door().keeper().admit(LOCAL, "GET", "/metrics"))[0] == 403


# ---- what is remembered


def test_reviews_are_remembered_for_ten_seconds() -> None:
    async def main() -> None:
        door = Door()
        keeper = door.keeper()
        for now_s in (0, 5, 9.9):
            door.now_s = now_s
            await keeper.admit(bearer("t-alice"), "GET", "/metrics")
            with pytest.raises(ApiError):
                await keeper.admit(bearer("bad"), "GET", "/metrics")
        assert (door.reviews.count("tokenreviews"), door.reviews.count("subjectaccessreviews")) == (2, 1)
        door.now_s = 10
        await keeper.admit(bearer("t-alice"), "GET", "/metrics")
        assert (door.reviews.count("tokenreviews"), door.reviews.count("subjectaccessreviews")) == (3, 2)

    run(main())


def test_yes_and_no_may_last_differently() -> None:
    async def main() -> None:
        door = Door()
        keeper = door.keeper(AccessSettings(allowed_s=100, denied_s=1, token_s=100))
        for now_s in (0, 50):
            door.now_s = now_s
            await keeper.admit(bearer("t-alice"), "GET", "/metrics")
            with pytest.raises(ApiError):
                await keeper.admit(bearer("t-bob"), "GET", "/metrics")
        assert [spec["user"] for kind, spec in door.reviews.asked if "access" in kind] == ["alice", "bob", "bob"]

    run(main())


def test_failures_are_not_remembered() -> None:
    async def main() -> None:
        door = Door(FakeReviews(error=TimedOut("x")))
        keeper = door.keeper()
        with pytest.raises(ApiError):
            await keeper.identify(bearer("t-alice"))
        door.reviews.error = None
        assert (await keeper.identify(bearer("t-alice"))).name == "alice"

    run(main())


def test_those_who_ask_at_once_share_one_review_and_may_leave() -> None:
    async def main() -> None:
        door = Door()
        keeper = door.keeper()
        calls = [asyncio.ensure_future(keeper.identify(bearer("t-alice"))) for _ in range(5)]
        await asyncio.sleep(0)
        calls[0].cancel()
        users = await asyncio.gather(*calls[1:])
        assert {user.name for user in users} == {"alice"}
        assert door.reviews.count("tokenreviews") == 1

    run(main())


def test_memory_is_bounded() -> None:
    async def main() -> None:
        remembered: ReviewCache[int, int] = ReviewCache(lambda value: 10, lambda: 0)

        async def answer() -> int:
            return 1

        async def other() -> int:
            return 2

        for key in range(MOST + 10):
            await remembered.get(key, answer)
        assert [await remembered.get(key, other) for key in (MOST + 9, 10, 9)] == [1, 1, 2], "the oldest are forgotten"

    run(main())


def test_no_secret_shows() -> None:
    assert "t-alice" not in repr(bearer("t-alice"))


@pytest.mark.parametrize(("path", "is_open"), [("/metrics/slis", True), ("/metrics", True), ("/mine", False)])
def test_a_star_opens_nothing_that_only_begins_with_the_same_letter(path: str, is_open: bool) -> None:
    keeper = Door().keeper(AccessSettings(always_allowed=("/metrics*",)))
    if is_open:
        assert run(keeper.admit(REMOTE, "GET", path)) == ANONYMOUS
    else:
        assert refused(keeper.admit(REMOTE, "GET", path))[0] == 403
