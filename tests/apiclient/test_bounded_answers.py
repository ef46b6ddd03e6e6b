"""What a server may ask of a client is bounded: how long it waits for Retry-After, how long a list is, and what an answer of
success has to be."""

import pytest
from test_client import PODS, a_page, a_server, answering, busy
from test_client import a_client as a_general_client
from test_lean_client import BINDING, a_client, run

from mooring.api.api_errors import ApiError, conflict, too_many_requests
from mooring.apiclient.client import Limits
from mooring.apiclient.http_requests import TooLarge, Unreadable
from recording_server import Time, a_recorder, always, refused, said

# ---- short writes


@pytest.mark.parametrize("after", ["100000", "31", "9" * 5000], ids=["a day", "31 s", "5000 digits"])
def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for(after: str) -> None:
    async def main() -> None:
        time = Time()
        answer = refused(too_many_requests("slow down"), **{"Retry-After": after})
        async with a_recorder(always(answer)) as recorder, a_client(recorder.url, time=time) as client:
            with pytest.raises(ApiError) as told:
                await client.send("POST", "/x", b"{}")
            assert told.value.code == 429
            assert len(recorder.requests) == 1 and time.slept_s == []

    run(main())


@pytest.mark.parametrize(("after", "waits"), [(30, 1), (16, 1), (10, 3), (7, 4), (1, 10), (0, 10)])
def test_all_waits_that_a_server_asks_for_take_thirty_seconds_at_most(after: int, waits: int) -> None:
    async def main() -> None:
        time = Time()
        answer = refused(too_many_requests("slow down"), **{"Retry-After": str(after)})
        async with a_recorder(always(answer)) as recorder, a_client(recorder.url, time=time) as client:
            with pytest.raises(ApiError):
                await client.send("POST", "/x", b"{}")
            assert time.slept_s == [after] * waits
            assert len(recorder.requests) == waits + 1

    run(main())


PAGE = b"<html><body>Welcome to the hotel</body></html>"


def with_body(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)


@pytest.mark.parametrize(
    "content", [PAGE, b"", b"[]", b"true", b'{"kind":', b"{}x", b'{"kind":"Status","status":'], ids=repr
)
@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "GET"])
def test_a_success_that_is_no_object_of_the_api_leaves_the_outcome_open(content: bytes, method: str) -> None:
    async def main() -> None:
        async with a_recorder(always(with_body(content))) as recorder, a_client(recorder.url) as client:
            for _ in range(2):
                with pytest.raises(Unreadable) as told:
                    await client.send(method, "/x", b"{}")
                assert str(told.value) == f"{method} /x: the answer is not an object of the API"

    run(main())


def test_a_success_whose_status_reports_a_failure_is_a_refusal() -> None:
    async def main() -> None:
        error = conflict("pods/binding", "p", "taken")
        async with a_recorder(always(said(200, error.status()))) as recorder, a_client(recorder.url) as client:
            with pytest.raises(ApiError) as told:
                await client.send("POST", BINDING, b"{}")
            assert (told.value.code, told.value.message) == (409, error.message)

    run(main())


# ---- the general client


@pytest.mark.parametrize("after", ["100000", "9" * 5000], ids=["a day", "5000 digits"])
@pytest.mark.parametrize("verb", ["get", "put", "list"])
def test_lists_and_leases_do_not_wait_that_long_either(verb: str, after: str) -> None:
    async def main() -> None:
        time = Time()
        async with a_server(answering(busy(after=after))) as (url, seen), a_general_client(url, time) as client:
            with pytest.raises(ApiError) as caught:
                await getattr(client, verb)(PODS, *([{}] if verb == "put" else []))
        assert (caught.value.code, time.slept_s, len(seen.requests)) == (429, [], 1)

    run(main())


def test_a_list_that_never_ends_is_given_up() -> None:
    async def main() -> None:
        pages = (a_page(f"p{number}", token="t") for number in range(9))
        limits = Limits(pages=3)
        async with a_server(answering(*pages)) as (url, seen), a_general_client(url, limits=limits) as client:
            with pytest.raises(TooLarge, match="the list has more than 3 pages"):
                await client.list(PODS)
        assert len(seen.requests) == 3

    run(main())
