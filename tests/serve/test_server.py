"""The server over real TLS on loopback: certificates that change, clients that are slow, and an end in good order."""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from client_certificates import sign_client
from cluster_api import an_api
from fake_client import FakeClient
from mooring.api.api_errors import not_found
from mooring.api.kinds import RESOURCES
from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import Identity, KeyPair
from mooring.apiserver.server.http import HttpServer
from mooring.kit.clock import WallClock
from mooring.kit.logs import Log
from mooring.serve.pages.access import AccessSettings, RequestAuthorizer, request_authorizer, review_client
from mooring.serve.pages.pages import Health, Pages, Sources, health_pages
from mooring.serve.pages.server import ListenError, WebLimits, WebServer
from mooring.serve.pages.server_tls import (
    CONFIG_MAP,
    AuthorityError,
    CertificateError,
    ClientAuthorities,
    ServerTls,
    serving_pair,
)

SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))
HOST = "127.0.0.1"
ALONE = request_authorizer(AccessSettings(), None, None, time.monotonic, SILENT)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def the_pages(metrics: Callable[[], bytes] = lambda: b"m 1\n", set_verbosity: Any = lambda verbosity: None) -> Pages:
    sources = Sources(metrics, lambda: b"", lambda: b"", lambda: None, dict, dict, set_verbosity)
    health = Health(True, lambda: False, lambda: True)
    return Pages(sources, health_pages(health, SILENT), WallClock(), time.time_ns())


@asynccontextmanager
async def serving(
    pages: Pages | None = None,
    authorizer: RequestAuthorizer = ALONE,
    limits: WebLimits | None = None,
    tls: ServerTls | None = None,
) -> AsyncIterator[tuple[WebServer, int]]:
    server = WebServer(pages or the_pages(), authorizer, SILENT, limits)
    port = await server.start(HOST, 0, tls.context() if tls else None)
    try:
        yield server, port
    finally:
        await server.stop()


async def ask(
    port: int,
    path: str,
    method: str = "GET",
    trust: ssl.SSLContext | None = None,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, str, Any]:
    url = f"{'https' if trust else 'http'}://{HOST}:{port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, ssl=trust or False, data=body, headers=headers) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


def trusting(authority_pem: bytes, shown: KeyPair | None = None, scratch: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority_pem.decode())
    if shown is not None and scratch is not None:
        file = scratch / "shown.pem"
        file.write_bytes(shown.key_pem + shown.certificate_pem)
        context.load_cert_chain(file)
    return context


def write_pair(directory: Path, pair: KeyPair) -> tuple[Path, Path]:
    certificate, key = directory / "tls.crt", directory / "tls.key"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    return certificate, key


# ---- answers


def test_every_answer_says_not_to_keep_it() -> None:
    async def main() -> None:
        async with serving() as (_, port):
            for path, status, text in (
                ("/healthz", 200, "ok"),
                ("/metrics", 200, "m 1\n"),
                ("/nothing", 404, "404 page not found\n"),
            ):
                found, body, headers = await ask(port, path)
                assert (found, body, headers["Cache-Control"]) == (status, text, "no-cache, private")
                assert headers["Server"] == "mooring"
            assert (await ask(port, "/healthz", "POST"))[:2] == (200, "ok"), "methods are not checked"
            assert (await ask(port, "/readyz?verbose&exclude=shutdown"))[1].splitlines()[
                1
            ] == "[+]shutdown excluded: ok"

    run(main())


def test_a_body_is_read_where_it_is_wanted_and_only_so_far() -> None:
    async def main() -> None:
        levels: list[int] = []
        async with serving(the_pages(set_verbosity=levels.append)) as (_, port):
            assert (await ask(port, "/debug/flags/v", "PUT", body=b"7"))[0] == 200
            status, text, _ = await ask(port, "/debug/flags/v", "PUT", body=b"1" * 5000)
            assert (status, json.loads(text)["message"]) == (413, "Request entity too large: limit is 4096")
        assert levels == [7]

    run(main())


def test_a_page_that_fails_does_not_end_the_server() -> None:
    def broken() -> bytes:
        raise KeyError("oops")

    async def main() -> None:
        async with serving(the_pages(broken)) as (_, port):
            status, text, _ = await ask(port, "/metrics")
            assert (status, text) == (
                500,
                "This request caused the scheduler to fail. Look in the logs for details.\n",
            )
            assert (await ask(port, "/healthz"))[0] == 200

    run(main())


class SlowReviews(FakeClient):
    """Answers only when told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        self.asked.set()
        await self.go.wait()
        return {"status": {"allowed": True}}


def a_slow_authorizer(reviews: SlowReviews) -> RequestAuthorizer:
    return request_authorizer(AccessSettings(), reviews, reviews, time.monotonic, SILENT)


def test_a_request_that_takes_too_long_is_given_up() -> None:
    async def main() -> None:
        async with serving(authorizer=a_slow_authorizer(SlowReviews()), limits=WebLimits(request_s=0.1)) as (_, port):
            status, text, _ = await ask(port, "/metrics")
            assert status == 504
            assert json.loads(text)["message"] == "Timeout: request did not complete within the allotted timeout"

    run(main())


# ---- connections


def test_an_address_that_is_taken_is_an_error_that_says_so() -> None:
    async def main() -> None:
        async with serving() as (_, port):
            with pytest.raises(ListenError) as caught:
                await WebServer(the_pages(), ALONE, SILENT).start(HOST, port, None)
            assert str(caught.value).startswith(f"failed to create listener: failed to listen on {HOST}:{port}: ")

    run(main())


def test_who_connects_and_says_nothing_is_cut_off() -> None:
    async def main() -> None:
        async with serving(limits=WebLimits(first_request_s=0.4)) as (_, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
            async with asyncio.timeout(2):
                assert await reader.read() == b""
            writer.close()

            async with aiohttp.ClientSession() as session:
                for _ in range(3):
                    async with session.get(f"http://{HOST}:{port}/healthz") as answer:
                        assert await answer.text() == "ok"
                    await asyncio.sleep(0.25)

    run(main())


def test_the_longest_idle_connection_makes_room_for_a_new_one() -> None:
    async def main() -> None:
        async with serving(limits=WebLimits(connections=2)) as (_, port):
            opened = [await asyncio.open_connection(HOST, port) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert (await ask(port, "/healthz"))[:2] == (200, "ok")
            async with asyncio.timeout(2):
                assert await opened[0][0].read() == b"", "the first has left"
            for _, writer in opened:
                writer.close()

    run(main())


def test_a_connection_with_an_open_request_is_not_closed_for_want_of_room() -> None:
    async def main() -> None:
        reviews = SlowReviews()
        async with serving(authorizer=a_slow_authorizer(reviews), limits=WebLimits(connections=1)) as (_, port):
            asking = asyncio.ensure_future(ask(port, "/metrics"))
            await reviews.asked.wait()
            reader, writer = await asyncio.open_connection(HOST, port)
            async with asyncio.timeout(2):
                assert await reader.read() == b"", "the new one has to leave"
            writer.close()
            reviews.go.set()
            assert (await asking)[:2] == (200, "m 1\n")

    run(main())


def test_an_open_request_may_finish_after_stop_and_nobody_new_gets_in() -> None:
    async def main() -> None:
        reviews = SlowReviews()
        async with serving(authorizer=a_slow_authorizer(reviews)) as (server, port):
            asking = asyncio.ensure_future(ask(port, "/metrics"))
            await reviews.asked.wait()
            stopping = asyncio.ensure_future(server.stop())
            await asyncio.sleep(0.05)
            with pytest.raises(aiohttp.ClientConnectorError):
                await ask(port, "/healthz")
            assert not stopping.done()
            reviews.go.set()
            assert (await asking)[:2] == (200, "m 1\n")
            async with asyncio.timeout(2):
                await stopping

    run(main())


def test_a_request_that_does_not_finish_is_cut_off() -> None:
    async def main() -> None:
        reviews = SlowReviews()
        async with serving(authorizer=a_slow_authorizer(reviews), limits=WebLimits(end_s=0.2)) as (server, port):
            asking = asyncio.ensure_future(ask(port, "/metrics"))
            await reviews.asked.wait()
            async with asyncio.timeout(2):
                await server.stop()
            with pytest.raises(aiohttp.ClientError):
                await asking

    run(main())


def test_the_limit_leaves_most_descriptors_to_the_scheduler() -> None:
    assert WebLimits.within(1 << 16) == WebLimits() == WebLimits.within(400)
    assert WebLimits.within(200) == WebLimits(50, 25)
    assert WebLimits.within(1) == WebLimits(4, 2)


def test_silent_connections_before_the_handshake_keep_nobody_out() -> None:
    async def main() -> None:
        pair = serving_pair(None, None, None, ["0.0.0.0"], WallClock(), SILENT)
        trust = ssl.create_default_context(cadata=pair().certificate_pem.decode())
        async with serving(tls=ServerTls(pair, None, SILENT), limits=WebLimits(connections=20)) as (server, port):
            silent = [await asyncio.open_connection(HOST, port) for _ in range(100)]
            assert (await ask(port, "/healthz", trust=trust))[:2] == (200, "ok")
            assert 0 < server.connections <= 20
            for _, writer in silent:
                writer.close()

    run(main())


# ---- TLS


def test_a_certificate_made_in_memory_is_good_for_this_machine() -> None:
    async def main() -> None:
        pair = serving_pair(None, None, None, ["0.0.0.0"], WallClock(), SILENT)
        tls = ServerTls(pair, None, SILENT)
        authority = b"-----BEGIN" + pair().certificate_pem.rpartition(b"-----BEGIN")[2]
        async with serving(tls=tls) as (_, port):
            assert (await ask(port, "/healthz", trust=trusting(authority)))[0] == 200

    run(main())


def test_tls_1_1_is_refused() -> None:
    tls = ServerTls(serving_pair(None, None, None, [], WallClock(), SILENT), None, SILENT)
    assert tls.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_directory_gets_a_pair_once(tmp_path: Path) -> None:
    pair = serving_pair(None, None, tmp_path / "certs", [], WallClock(), SILENT)()
    assert (tmp_path / "certs" / "kube-scheduler.crt").read_bytes() == pair.certificate_pem
    assert (tmp_path / "certs" / "kube-scheduler.key").stat().st_mode & 0o777 == 0o600
    assert serving_pair(None, None, tmp_path / "certs", [], WallClock(), SILENT)() == pair


def test_a_certificate_that_is_replaced_is_shown_from_then_on(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = CertificateFiles(), CertificateFiles()
        files = write_pair(tmp_path, old.server())
        tls = ServerTls(serving_pair(*files, None, [], WallClock(), SILENT), None, SILENT)
        async with serving(tls=tls) as (_, port):
            assert (await ask(port, "/healthz", trust=trusting(old.authority_pem)))[0] == 200
            files[0].write_bytes(new.server().certificate_pem)
            assert (await ask(port, "/healthz", trust=trusting(old.authority_pem)))[0] == 200, "half replaced"
            write_pair(tmp_path, new.server())
            assert (await ask(port, "/healthz", trust=trusting(new.authority_pem)))[0] == 200
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await ask(port, "/healthz", trust=trusting(old.authority_pem))
            files[1].unlink()
            assert (await ask(port, "/healthz", trust=trusting(new.authority_pem)))[0] == 200, "gone for a moment"

    run(main())


def test_files_that_cannot_be_used_are_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(CertificateError) as caught:
        serving_pair(tmp_path / "a", None, None, [], WallClock(), SILENT)
    assert str(caught.value) == "--tls-cert-file and --tls-private-key-file must be given together"
    with pytest.raises(CertificateError) as caught:
        ServerTls(serving_pair(tmp_path / "a", tmp_path / "b", None, [], WallClock(), SILENT), None, SILENT)
    assert str(caught.value) == f"{tmp_path / 'a'} cannot be read: No such file or directory"
    mixed = KeyPair(CertificateFiles().server().certificate_pem, CertificateFiles().server().key_pem)
    with pytest.raises(CertificateError) as caught:
        ServerTls(lambda: mixed, None, SILENT)
    assert str(caught.value) == "the serving certificate and its key are not PEM, or do not belong together"


# ---- client certificates


class ConfigMap(FakeClient):
    """The cluster's ConfigMap, or why it cannot be read."""

    def __init__(self, found: Any) -> None:
        self.found = found

    async def get(self, path: str, params: Any = None) -> Any:
        assert path == CONFIG_MAP
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_a_client_certificate_says_who_calls_and_authorities_are_followed(tmp_path: Path) -> None:
    async def main() -> None:
        server, old, new = CertificateFiles(), CertificateFiles(), CertificateFiles()
        file = tmp_path / "client-ca.crt"
        file.write_bytes(old.authority_pem)
        authorities = ClientAuthorities(file, None, SILENT)
        pair = server.server()
        tls = ServerTls(lambda: pair, authorities.pem, SILENT)
        authorizer = request_authorizer(AccessSettings(), None, NobodyMay(), time.monotonic, SILENT)

        def shows(files: CertificateFiles, groups: list[str]) -> ssl.SSLContext:
            return trusting(server.authority_pem, sign_client(files.authority, "admin", groups), tmp_path)

        async with serving(authorizer=authorizer, tls=tls) as (_, port):
            assert (await ask(port, "/metrics", trust=shows(old, ["system:masters"])))[0] == 200
            status, text, _ = await ask(port, "/metrics", trust=shows(old, ["dev"]))
            assert (status, json.loads(text)["message"]) == (
                403,
                'forbidden: User "admin" cannot get path "/metrics"',
            )
            assert (await ask(port, "/metrics", trust=trusting(server.authority_pem)))[0] == 403, "anonymous"
            with pytest.raises((aiohttp.ClientError, OSError)):
                await ask(port, "/healthz", trust=shows(new, ["system:masters"]))
            file.write_bytes(new.authority_pem)
            assert (await ask(port, "/metrics", trust=shows(new, ["system:masters"])))[0] == 200
            with pytest.raises((aiohttp.ClientError, OSError)):
                await ask(port, "/metrics", trust=shows(old, ["system:masters"]))

    run(main())


class NobodyMay(FakeClient):
    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        return {"status": {"allowed": False}}


def test_the_authority_of_the_cluster_is_looked_up() -> None:
    async def main() -> None:
        published = CertificateFiles().authority_pem
        cluster = ConfigMap({"data": {"client-ca-file": published.decode()}})
        authorities = ClientAuthorities(None, cluster, SILENT)
        assert authorities.pem() == b""
        await authorities.look_up()
        assert authorities.pem() == published
        for found in (not_found("configmaps", "x"), {"data": {"client-ca-file": "nonsense"}}):
            cluster.found = found
            await authorities.look_up()
            assert authorities.pem() == published, "what was found before is kept"
        cluster.found = {"data": {}}
        await authorities.look_up()
        assert authorities.pem() == b""

    run(main())


def test_the_cluster_is_asked_again_each_minute() -> None:
    async def main() -> None:
        cluster, slept = ConfigMap({"data": {}}), []

        async def sleep(for_s: float) -> None:
            slept.append(for_s)
            if len(slept) == 3:
                raise asyncio.CancelledError

        authorities = ClientAuthorities(None, cluster, SILENT)
        published = CertificateFiles().authority_pem
        cluster.found = {"data": {"client-ca-file": published.decode()}}
        with pytest.raises(asyncio.CancelledError):
            await authorities.keep_looking(sleep)
        assert (slept, authorities.pem()) == ([60, 60, 60], published)

    run(main())


def test_a_lookup_that_fails_is_an_error_only_where_it_is_needed() -> None:
    async def main() -> None:
        missing = ConfigMap(not_found("configmaps", "extension-apiserver-authentication"))
        await ClientAuthorities(None, missing, SILENT).look_up()
        with pytest.raises(AuthorityError) as caught:
            await ClientAuthorities(None, missing, SILENT, is_lookup_needed=True).look_up()
        assert str(caught.value) == (
            'unable to load configmap based client authority: configmaps "extension-apiserver-authentication" not found'
        )

    run(main())


def test_a_client_authority_that_is_none_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(AuthorityError) as caught:
        ClientAuthorities(tmp_path / "ca", None, SILENT)
    assert str(caught.value) == f"--client-ca-file: {tmp_path / 'ca'} cannot be read: No such file or directory"
    (tmp_path / "ca").write_text("hello")
    with pytest.raises(AuthorityError) as caught:
        ClientAuthorities(tmp_path / "ca", None, SILENT)
    assert str(caught.value) == f"--client-ca-file: {tmp_path / 'ca'} holds no PEM certificate"


# ---- with an API server behind it


def test_tokens_are_reviewed_by_an_api_server_and_its_config_map_is_read() -> None:
    async def main() -> None:
        api = an_api()
        authority = CertificateFiles().authority_pem
        data = {"client-ca-file": authority.decode()}
        published = {"metadata": {"name": "extension-apiserver-authentication"}, "data": data}
        api.create(RESOURCES["", "v1", "configmaps"], "kube-system", published)
        behind = HttpServer(api, token="good-token")
        access = ConnectionSettings(f"http://{HOST}:{await behind.start(HOST, 0)}")
        async with review_client(replace(access, credentials=Identity(token=b"good-token")), "tests") as client:
            authorities = ClientAuthorities(None, client, SILENT)
            await authorities.look_up()
            assert authorities.pem() == authority
            authorizer = request_authorizer(AccessSettings(), client, client, time.monotonic, SILENT)
            async with serving(authorizer=authorizer) as (_, port):
                assert (await ask(port, "/metrics", headers={"Authorization": "Bearer good-token"}))[0] == 200
                status, text, _ = await ask(port, "/healthz", headers={"Authorization": "Bearer bad-token"})
                assert (status, json.loads(text)["message"]) == (401, "Unauthorized")
            await behind.stop()
            async with serving(authorizer=authorizer) as (_, port):
                status, text, _ = await ask(port, "/configz")
                assert status == 500
                assert text.startswith('Internal Server Error: "/configz": POST /apis/authorization.k8s.io/v1/')

    run(main())


def test_a_web_page_from_elsewhere_is_refused() -> None:
    async def run() -> None:
        async with serving() as (_, port):
            assert (await ask(port, "/healthz"))[0] == 200
            assert (await ask(port, "/healthz", headers={"Origin": f"http://{HOST}:{port}"}))[0] == 200
            status, text, _ = await ask(port, "/healthz", headers={"Origin": "https://evil.example"})
            assert status == 403 and "the request comes from a web page of another origin" in text

    asyncio.run(run())
