"""What the pages and their server write to the log, send for reviews, and say about certificates, word for word."""

import asyncio
import io
import json
import logging
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from cryptography.hazmat.primitives import serialization

from fake_client import FakeClient
from mooring.api.api_errors import ApiError, not_found
from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.credentials import KeyPair
from mooring.apiclient.http_requests import TimedOut
from mooring.kit.clock import WallClock
from mooring.kit.logs import start_logs
from mooring.serve.pages.access import AccessSettings, Caller, RequestAuthorizer, ReviewFailed, request_authorizer
from mooring.serve.pages.pages import Health, Pages, Sources, health_pages
from mooring.serve.pages.server import WebLimits, WebServer
from mooring.serve.pages.server_tls import AuthorityError, CertificateError, ClientAuthorities, ServerTls, serving_pair


class Lines:
    """A log, and the lines that were written to it: level, message, error, and keys."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.log = start_logs(logging.Logger("pages"), "json", 9, self._stream, 1).log

    @property
    def all(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [{key: line[key] for key in line if key not in ("ts", "caller", "v", "stacktrace")} for line in lines]


class Reviews(FakeClient):
    """Answers each review with the same, or does not answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.sent: list[tuple[str, Any]] = []

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        self.sent.append((path, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def an_authorizer(reviews: Reviews, lines: Lines) -> RequestAuthorizer:
    return request_authorizer(AccessSettings(), reviews, reviews, lambda: 0.0, lines.log)


# ---- reviews


def test_reviews_are_sent_with_version_and_kind() -> None:
    reviews = Reviews({"status": {"authenticated": True, "user": {"username": "eve"}, "allowed": True}})
    asyncio.run(an_authorizer(reviews, Lines()).admit(Caller("Bearer t"), "GET", "/metrics"))
    assert reviews.sent == [
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}},
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                    "user": "eve",
                    "groups": ["system:authenticated"],
                },
            },
        ),
    ]


def test_reviews_without_an_answer_are_logged() -> None:
    lines = Lines()
    authorizer = an_authorizer(Reviews(TimedOut("no answer")), lines)
    with pytest.raises(ApiError):
        asyncio.run(authorizer.identify(Caller("Bearer t")))
    with pytest.raises(ReviewFailed, match=r"^no answer$"):
        asyncio.run(authorizer.admit(Caller(), "GET", "/metrics"))
    assert lines.all == [
        {"msg": "Unable to authenticate the request", "err": "no answer"},
        {"msg": "Unable to authorize the request", "err": "no answer", "path": "/metrics"},
    ]


@pytest.mark.parametrize("answer", [[], {"status": 5}, {"status": {"allowed": "yes"}}])
def test_an_answer_that_is_no_review_is_a_failure(answer: Any) -> None:
    authorizer = an_authorizer(Reviews(answer), Lines())
    with pytest.raises(ReviewFailed, match=r"^the answer is no SubjectAccessReview: "):
        asyncio.run(authorizer.admit(Caller(), "GET", "/metrics"))


def test_an_answer_without_a_status_is_a_no() -> None:
    authorizer = an_authorizer(Reviews({}), Lines())
    with pytest.raises(ApiError) as caught:
        asyncio.run(authorizer.admit(Caller(), "GET", "/metrics"))
    assert caught.value.message == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    with pytest.raises(ApiError) as caught:
        asyncio.run(authorizer.identify(Caller("Bearer t")))
    assert caught.value.code == 401


def test_an_answer_that_authenticates_nobody_is_a_no() -> None:
    for status in ({"authenticated": True}, {"authenticated": False, "user": {"username": "eve"}}):
        with pytest.raises(ApiError) as caught:
            asyncio.run(an_authorizer(Reviews({"status": status}), Lines()).identify(Caller("Bearer t")))
        assert caught.value.code == 401


# ---- the server


def the_pages(metrics: Any) -> Pages:
    sources = Sources(metrics, lambda: b"", lambda: b"", lambda: None, dict, dict)
    health = Health(True, lambda: False, lambda: True)
    return Pages(sources, health_pages(health, Lines().log), WallClock(), time.time_ns())


def test_the_life_of_a_server_is_logged() -> None:
    lines = Lines()

    def broken() -> bytes:
        raise KeyError("oops")

    async def main() -> int:
        authorizer = request_authorizer(AccessSettings(), None, None, time.monotonic, lines.log)
        server = WebServer(the_pages(broken), authorizer, lines.log)
        port = await server.start("127.0.0.1", 0, None)
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.status == 500
        await server.stop()
        await server.stop()  # a second time it does nothing
        return port

    port = asyncio.run(main())
    assert lines.all == [
        {"msg": "Serving securely", "address": f"127.0.0.1:{port}"},
        {"msg": "A page failed", "err": "'oops'", "path": "/metrics"},
        {"msg": "[graceful-termination] secure server has stopped listening"},
        {"msg": "[graceful-termination] secure server is exiting"},
    ]


def test_requests_that_do_not_finish_are_counted_in_the_log() -> None:
    lines, asked = Lines(), asyncio.Event()

    class Silent(FakeClient):
        async def post(self, path: str, body: Any, params: Any = None) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async def main() -> None:
        authorizer = request_authorizer(AccessSettings(), None, Silent(), time.monotonic, lines.log)
        server = WebServer(the_pages(lambda: b""), authorizer, lines.log, WebLimits(end_s=0.01))
        port = await server.start("127.0.0.1", 0, None)
        async with ClientSession() as session:
            asking = asyncio.ensure_future(session.get(f"http://127.0.0.1:{port}/metrics"))
            await asked.wait()
            await server.stop()
            await asyncio.wait((asking,))
            assert asking.exception() is not None

    asyncio.run(main())
    assert {"msg": "Closing requests that are still open", "count": 1} in lines.all


def test_a_server_without_requests_ends_at_once() -> None:
    lines = Lines()

    async def main() -> None:
        authorizer = request_authorizer(AccessSettings(), None, None, time.monotonic, lines.log)
        server = WebServer(the_pages(lambda: b""), authorizer, lines.log, WebLimits(end_s=0.01))
        await server.start("127.0.0.1", 0, None)
        await server.stop()

    asyncio.run(main())
    assert [line["msg"] for line in lines.all][1:] == [
        "[graceful-termination] secure server has stopped listening",
        "[graceful-termination] secure server is exiting",
    ]


def test_the_limits_of_a_server() -> None:
    limits = WebLimits()
    assert (limits.connections, limits.of_one_remote, limits.body_bytes) == (100, 50, 4096)
    assert (limits.handshake_s, limits.first_request_s, limits.request_s) == (10, 32, 60)
    assert (limits.idle_s, limits.end_s) == (90, 5)


class Asked:
    """Pages below /more/ that note who stays until they answer."""

    prefix = "/more/"

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    def is_open(self, path: str) -> bool:
        return True

    async def handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return web.Response()


def test_a_mounted_page_ends_when_its_asker_leaves() -> None:
    lines = Lines()

    async def main() -> None:
        mounted = Asked()
        authorizer = request_authorizer(AccessSettings(), None, None, time.monotonic, lines.log)
        server = WebServer(the_pages(lambda: b""), authorizer, lines.log, WebLimits(end_s=0.01), mounted)
        port = await server.start("127.0.0.1", 0, None)
        for path in ("/more/x", "/more"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await mounted.began.wait()
            writer.close()
            async with asyncio.timeout(10):
                await mounted.ended.wait()
            mounted.began.clear()
            mounted.ended.clear()
        await server.stop()

    asyncio.run(main())


def test_a_web_page_from_elsewhere_gets_a_whole_refusal_and_accept_headers_are_joined() -> None:
    async def main() -> None:
        log = Lines().log
        server = WebServer(the_pages(lambda: b""), an_authorizer(Reviews({"status": {"allowed": True}}), Lines()), log)
        port = await server.start("127.0.0.1", 0, None)
        url = f"http://127.0.0.1:{port}/statusz"
        async with ClientSession() as session:
            async with session.get(url, headers={"Origin": "https://evil.example"}) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert await answer.json() == {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Failure",
                    "message": "forbidden: the request comes from a web page of another origin",
                    "reason": "Forbidden",
                    "details": {},
                    "code": 403,
                }
            for accept in (("text/plain", "text/html"), ("text/html", "text/plain")):
                async with session.get(url, headers=[("Accept", each) for each in accept]) as answer:
                    assert answer.status == 200
        await server.stop()

    asyncio.run(main())


# ---- certificates


def test_a_certificate_that_is_made_is_logged(tmp_path: Path) -> None:
    lines = Lines()
    serving_pair(None, None, None, [], WallClock(), lines.log)
    for _ in range(2):
        serving_pair(None, None, tmp_path, [], WallClock(), lines.log)
    files = {"certificate": f"{tmp_path}/kube-scheduler.crt", "key": f"{tmp_path}/kube-scheduler.key"}
    assert lines.all == [
        {"msg": "Generated self-signed cert in-memory"},
        {"msg": "Generated self-signed cert", **files},
    ]


@pytest.mark.parametrize("missing", ["crt", "key"])
def test_half_a_pair_in_the_directory_is_made_anew(tmp_path: Path, missing: str) -> None:
    first = serving_pair(None, None, tmp_path, [], WallClock(), Lines().log)()
    (tmp_path / f"kube-scheduler.{missing}").unlink()
    second = serving_pair(None, None, tmp_path, [], WallClock(), Lines().log)()
    assert second.certificate_pem != first.certificate_pem and second.key_pem != first.key_pem
    ServerTls(lambda: second, None, Lines().log)


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError) as caught:
        serving_pair(None, None, tmp_path / "file", [], WallClock(), Lines().log)
    assert str(caught.value).startswith(f"--cert-dir: {tmp_path / 'file'} cannot be written: ")


def test_an_encrypted_key_is_told() -> None:
    pair = CertificateFiles().server()
    key = serialization.load_pem_private_key(pair.key_pem, None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret"))
    with pytest.raises(CertificateError) as caught:
        ServerTls(lambda: KeyPair(pair.certificate_pem, encrypted), None, Lines().log)
    expected = "the key of the serving certificate is encrypted; give a key without a password"
    assert str(caught.value) == expected


def test_no_session_is_resumed_and_only_http_1_is_offered() -> None:
    """A resumed session would keep the user of an authority that is no longer trusted."""
    pair = CertificateFiles().server()
    context = ServerTls(lambda: pair, None, Lines().log).context()
    assert context.options & ssl.OP_NO_TICKET and context.options & ssl.OP_NO_RENEGOTIATION
    assert context.num_tickets == 0 and context.verify_mode == ssl.CERT_NONE
    asks = ServerTls(lambda: pair, lambda: b"", Lines().log).context()
    assert asks.verify_mode == ssl.CERT_OPTIONAL and not asks.get_ca_certs()
    trusts = ServerTls(lambda: pair, lambda: CertificateFiles().authority_pem, Lines().log).context()
    assert trusts.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN and len(trusts.get_ca_certs()) == 1


@pytest.mark.parametrize("authorities", [b"hello", b"\xff", b"\0"])
def test_authorities_that_are_not_pem_are_told(authorities: bytes) -> None:
    pair = CertificateFiles().server()
    with pytest.raises(CertificateError, match=r"^the client authorities are not PEM$"):
        ServerTls(lambda: pair, lambda: authorities, Lines().log)


def test_a_comment_beside_an_authority_may_be_in_any_language() -> None:
    pair, authority = CertificateFiles().server(), "# Zertifikat für alle\n".encode() + CertificateFiles().authority_pem
    context = ServerTls(lambda: pair, lambda: authority, Lines().log).context()
    assert len(context.get_ca_certs()) == 1


class _Handshake:
    context: ssl.SSLContext | None = None


def test_a_change_of_the_certificate_is_logged_once() -> None:
    lines = Lines()
    now: list[KeyPair | CertificateError] = [CertificateFiles().server()]

    def pair() -> KeyPair:
        if isinstance(now[0], CertificateError):
            raise now[0]
        return now[0]

    tls = ServerTls(pair, None, lines.log)
    first, shown = tls.context(), []
    for current in (now[0], CertificateFiles().server(), CertificateError("half of it")):
        now[0] = current
        for _ in range(2):
            handshake = _Handshake()
            first.sni_callback(handshake, None, first)  # type: ignore[arg-type, misc]
            shown.append(handshake.context)
    assert shown[0] is shown[1] is not shown[2]
    assert shown[2] is shown[3] is shown[4] is shown[5] is not None
    kept = {"msg": "Keeping the previous serving certificate", "err": "half of it"}
    assert lines.all == [{"msg": "Reloaded the serving certificate or the client authorities"}, kept, kept]


# ---- client authorities


class ConfigMap(FakeClient):
    def __init__(self, found: Any) -> None:
        self.found = found

    async def get(self, path: str, params: Any = None) -> Any:
        assert path == "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_authorities_that_are_kept_are_logged(tmp_path: Path) -> None:
    lines, file = Lines(), tmp_path / "ca"
    of_file, of_cluster = CertificateFiles().authority_pem, CertificateFiles().authority_pem
    file.write_bytes(of_file)
    cluster = ConfigMap({"data": {"client-ca-file": of_cluster.decode()}})
    authorities = ClientAuthorities(file, cluster, lines.log, is_lookup_needed=True)
    asyncio.run(authorities.look_up())
    file.unlink()
    cluster.found = not_found("configmaps", "x")
    asyncio.run(authorities.look_up())
    assert authorities.pem() == of_file + b"\n" + of_cluster
    cluster.found = {"data": {"client-ca-file": "nonsense"}}
    asyncio.run(authorities.look_up())
    unable = "Unable to get configmap/extension-apiserver-authentication in kube-system"
    missing = f"--client-ca-file: {file} cannot be read: No such file or directory"
    assert lines.all == [
        {"msg": unable, "err": 'configmaps "x" not found'},
        {"msg": "Keeping the previous client authority", "err": missing},
        {"msg": unable, "err": "its client-ca-file holds no PEM certificate"},
    ]


@pytest.mark.parametrize("found", [None, [], {}, {"data": None}, {"data": []}, {"data": {}}])
def test_a_config_map_without_the_key_has_no_authority(found: Any) -> None:
    authorities = ClientAuthorities(None, ConfigMap(found), Lines().log, is_lookup_needed=True)
    asyncio.run(authorities.look_up())
    assert authorities.pem() == b""


def test_a_needed_authority_that_is_not_pem_is_told() -> None:
    cluster = ConfigMap({"data": {"client-ca-file": "nonsense"}})
    with pytest.raises(AuthorityError) as caught:
        asyncio.run(ClientAuthorities(None, cluster, Lines().log, is_lookup_needed=True).look_up())
    assert str(caught.value) == (
        "unable to load configmap based client authority: its client-ca-file holds no PEM certificate"
    )


def test_whether_there_are_sources(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(CertificateFiles().authority_pem)
    log = Lines().log
    assert not ClientAuthorities(None, None, log).has_sources
    assert ClientAuthorities(tmp_path / "ca", None, log).has_sources
    assert ClientAuthorities(None, ConfigMap({}), log).has_sources
    asyncio.run(ClientAuthorities(None, None, log).look_up())
