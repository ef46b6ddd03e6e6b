"""Certificates: taken by strict TLS checks, kept from start to start, renewed when they no longer do."""

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509

from client_certificates import sign_client
from mooring.apiclient.certificates import ALWAYS_NAMED, CertificateFiles, new_authority, sign_server
from mooring.apiclient.credentials import KeyPair
from mooring.kit.clock import NS_PER_S, VirtualClock, WallClock

DAY_NS = 86_400 * NS_PER_S


def a_clock(days: int = 20_000) -> VirtualClock:
    return VirtualClock(days * DAY_NS)


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate_pem)


def names_of(pair: KeyPair) -> list[str]:
    names = parsed(pair).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_a_server_certificate_carries_the_hosts_given_and_those_always_named() -> None:
    hosts = ["Node-1.example.org", "10.0.0.7", "[fd00::7]", "localhost", "bücher.example"]
    pair = sign_server(new_authority(a_clock()), hosts, a_clock())
    added = ["node-1.example.org", "10.0.0.7", "fd00::7", "xn--bcher-kva.example"]
    assert names_of(pair) == [*ALWAYS_NAMED, *added]


def test_the_key_shows_in_no_repr() -> None:
    pair = new_authority(a_clock())
    assert "PRIVATE" not in repr(pair)
    assert b"PRIVATE" in pair.key_pem


def context_for(side: int, own: KeyPair, trusted_pem: bytes, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if side else ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=trusted_pem.decode())
    (directory / f"{side}.crt").write_bytes(own.certificate_pem)
    (directory / f"{side}.key").write_bytes(own.key_pem)
    context.load_cert_chain(directory / f"{side}.crt", directory / f"{side}.key")
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "kubernetes.default.svc", "mine.example"])
def test_both_sides_pass_the_strict_check(host: str, tmp_path: Path) -> None:
    files = CertificateFiles()
    server = context_for(1, files.server(["mine.example"]), files.authority_pem, tmp_path)
    client = context_for(0, sign_client(files.authority, "me", ["us"]), files.authority_pem, tmp_path)
    near, far = socket.socketpair()
    seen: list[object] = []

    def serve() -> None:
        with server.wrap_socket(far, server_side=True) as connection:
            connection.sendall(b"hello")
            seen.append(connection.getpeercert())

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(near, server_hostname=host) as connection:
        assert connection.recv(5) == b"hello"
    thread.join()
    assert "me" in str(seen)


def test_a_stranger_is_not_trusted(tmp_path: Path) -> None:
    server = context_for(1, CertificateFiles().server(), CertificateFiles().authority_pem, tmp_path)
    ours = CertificateFiles()
    client = context_for(0, sign_client(ours.authority, "me"), ours.authority_pem, tmp_path)
    near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(near, far, server_hostname="localhost")
    answering = server.wrap_bio(far, near, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        asking.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        answering.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError):
        asking.do_handshake()


# Kept in a directory


def test_the_next_start_finds_the_same_certificates(tmp_path: Path) -> None:
    clock = a_clock()
    first, second = CertificateFiles(tmp_path / "pki", clock), CertificateFiles(tmp_path / "pki", clock)
    assert second.authority_pem == first.authority_pem
    assert first.server(["a.example", "b.example"]) == second.server(["b.example"])


def test_without_a_directory_nothing_is_kept() -> None:
    assert CertificateFiles().authority_pem != CertificateFiles().authority_pem


def test_files_are_private(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "pki")
    files.server()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()}
    assert modes == dict.fromkeys(
        [
            "ca.crt",
            "ca.key",
            "server.crt",
            "server.key",
        ],
        0o600,
    )
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_a_certificate_is_renewed_before_it_ends(tmp_path: Path) -> None:
    clock = a_clock()
    files = CertificateFiles(tmp_path, clock)
    server, authority = files.server(), files.authority_pem
    clock.advance_ns(334 * DAY_NS)
    assert CertificateFiles(tmp_path, clock).server() == server
    clock.advance_ns(2 * DAY_NS)
    later = CertificateFiles(tmp_path, clock)
    assert later.server() != server
    assert later.authority_pem == authority


def test_a_new_authority_signs_everything_anew(tmp_path: Path) -> None:
    clock = a_clock()
    server = CertificateFiles(tmp_path, clock).server()
    (tmp_path / "ca.key").unlink()
    again = CertificateFiles(tmp_path, clock)
    assert again.server() != server
    parsed(again.server()).verify_directly_issued_by(x509.load_pem_x509_certificate(again.authority_pem))


@pytest.mark.parametrize("content", [b"", b"not PEM", new_authority(WallClock()).key_pem])
def test_a_key_that_does_not_fit_is_replaced(content: bytes, tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    files.server()
    (tmp_path / "server.key").write_bytes(content)
    renewed = files.server()
    assert renewed.key_pem != content
    assert (tmp_path / "server.key").read_bytes() == renewed.key_pem


@pytest.mark.parametrize(
    ("hosts", "is_renewed"), [([], False), (["a.example"], False), (["b.example"], True), (["10.0.0.1"], True)]
)
def test_a_new_host_makes_a_new_certificate(hosts: list[str], is_renewed: bool, tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    before = files.server(["a.example"])
    assert (files.server(hosts) != before) is is_renewed
