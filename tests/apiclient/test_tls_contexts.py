"""TLS of clients, in memory: a client and a server of Python's `ssl` pass bytes to each other."""

import logging
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest

from client_certificates import sign_client
from mooring.apiclient.certificates import new_authority, sign_server
from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts, client_context
from mooring.apiclient.credentials import CredentialsError, KeyPair
from mooring.kit.clock import WallClock

AUTHORITY = new_authority(WallClock())
ACCESS = ConnectionSettings("https://localhost", AUTHORITY.certificate_pem)
BOB = sign_client(AUTHORITY, "bob")


class Server:
    """A TLS server; a new one does not know the sessions of another."""

    def __init__(self, folder: Path, tickets: int = 2, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        pair = sign_server(AUTHORITY, (), WallClock())
        path = folder / "server.pem"
        path.write_bytes(pair.key_pem + pair.certificate_pem)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.maximum_version = version
        self._context.load_cert_chain(path)
        self._context.num_tickets = tickets

    def connect(self, context: ssl.SSLContext, name: str = "localhost") -> "Connection":
        return Connection(context, self._context, name)


class Connection:
    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(to_client, to_server, server_hostname=name)
        self._server = server.wrap_bio(to_server, to_client, server_side=True)

    def shake_hands(self, steps: int = 6) -> "Connection":
        for step in range(steps):
            with suppress(ssl.SSLWantReadError):
                (self._server if step % 2 else self.client).do_handshake()
        return self

    def ask(self) -> "Connection":
        """The first answer comes with the tickets."""
        self.client.write(b"?")
        assert self._server.read() == b"?"
        self._server.write(b"!")
        assert self.client.read() == b"!"
        return self

    @property
    def is_resumed(self) -> bool:
        return bool(self.client.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_later_connections_resume_the_session_of_an_earlier_one(tmp_path: Path, version: ssl.TLSVersion) -> None:
    server, context = Server(tmp_path, version=version), TlsContexts(ACCESS).of(None)
    first = server.connect(context).shake_hands().ask()
    assert not first.is_resumed
    later = [server.connect(context) for _ in range(3)]  # all at once, as a burst of binds opens them
    assert all(each.shake_hands().is_resumed for each in later)
    assert server.connect(context).shake_hands().ask().is_resumed


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_connection_may_be_opened_at_any_moment_of_the_handshake_of_another(
    tmp_path: Path, steps: int, version: ssl.TLSVersion
) -> None:
    server, context = Server(tmp_path, version=version), TlsContexts(ACCESS).of(None)
    first = server.connect(context).shake_hands(steps)
    second = server.connect(context).shake_hands().ask()
    first.shake_hands().ask()
    assert not first.is_resumed
    assert server.connect(context).shake_hands().is_resumed
    assert second.client.version() == first.client.version()


def test_connections_that_are_opened_before_a_ticket_came_wait_for_nothing(tmp_path: Path) -> None:
    server, context = Server(tmp_path), TlsContexts(ACCESS).of(None)
    together = [server.connect(context) for _ in range(3)]
    assert not any(each.shake_hands().is_resumed for each in together)
    together[-1].ask()
    assert server.connect(context).shake_hands().is_resumed


def test_a_server_without_tickets_or_with_another_key_does_full_handshakes(tmp_path: Path) -> None:
    context = TlsContexts(ACCESS).of(None)
    silent, known, restarted = Server(tmp_path, tickets=0), Server(tmp_path), Server(tmp_path)
    order = (silent, silent, known, known, restarted, restarted, known)
    connections = [server.connect(context).shake_hands().ask() for server in order]
    assert [each.is_resumed for each in connections] == [False, False, False, True, False, True, False]


def test_a_session_is_for_one_server_name_and_one_certificate(tmp_path: Path) -> None:
    server, contexts = Server(tmp_path), TlsContexts(ACCESS)
    earlier = server.connect(contexts.of(None)).shake_hands().ask()
    assert not server.connect(contexts.of(None), "127.0.0.1").shake_hands().is_resumed
    assert not server.connect(contexts.of(BOB)).shake_hands().is_resumed
    assert not earlier.is_resumed


def test_after_a_while_the_server_has_to_show_its_certificate_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, context, now_s = Server(tmp_path), TlsContexts(ACCESS).of(None), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    first = server.connect(context).shake_hands().ask()
    now_s += 3599
    resumed = server.connect(context).shake_hands().ask()
    now_s += 2
    again = server.connect(context).shake_hands().ask()
    assert [each.is_resumed for each in (first, resumed, again)] == [False, True, False]
    assert server.connect(context).shake_hands().is_resumed


def test_a_connection_that_is_gone_leaves_no_session(tmp_path: Path) -> None:
    server, context = Server(tmp_path), TlsContexts(ACCESS).of(None)
    first = server.connect(context).shake_hands().ask()
    del first
    assert not server.connect(context).shake_hands().is_resumed


def test_clients_share_a_context_until_the_certificate_changes(caplog: pytest.LogCaptureFixture) -> None:
    contexts = TlsContexts(ACCESS)
    context = contexts.of(BOB)
    assert contexts.of(BOB) is context
    # Certificate and key are two files; between their replacements they do not belong together.
    torn = KeyPair(sign_client(AUTHORITY, "bob").certificate_pem, BOB.key_pem)
    with caplog.at_level(logging.WARNING):
        assert contexts.of(torn) is context
    assert "the client continues with the previous certificate" in caplog.text
    assert contexts.of(sign_client(AUTHORITY, "bob")) is not context
    with pytest.raises(CredentialsError, match="do not belong together"):
        TlsContexts(ACCESS).of(torn)


def test_a_comment_beside_an_authority_may_be_in_any_language() -> None:
    commented = "# Zertifikat für alle\n".encode() + AUTHORITY.certificate_pem
    assert len(client_context(ConnectionSettings("https://x", commented), None).get_ca_certs()) == 1


@pytest.mark.parametrize("authority", [b"hello", "für".encode(), b"\xff", b"\0"])
def test_an_authority_that_is_not_pem_is_told(authority: bytes) -> None:
    with pytest.raises(CredentialsError) as caught:
        client_context(ConnectionSettings("https://x", authority), None)
    assert str(caught.value) == "the certificate authority of https://x is not PEM"
