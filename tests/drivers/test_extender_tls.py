"""TLS to extenders: whom we trust, what we show, and what is refused at the start (extender.md §1)."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client_certificates import sign_client
from extending import a_config
from mooring.apiclient.certificates import new_authority, sign_server
from mooring.apiclient.credentials import KeyPair
from mooring.drivers.extender_calls import ExtenderClient, extender_context
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call, CallFault, CallReply
from mooring.kit.clock import WallClock

AUTHORITY = new_authority(WallClock())
OTHER = new_authority(WallClock())


def an_extender(**written: Any) -> Extender:
    (extender,) = a_config({"filterVerb": "filter", **written}).extenders
    return extender


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def ask(tmp_path: Path, written: dict[str, Any], server: KeyPair, wants_client: bool = False) -> CallReply:
    """The reply of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = tmp_path / "server.pem"
    file.write_bytes(server.key_pem + server.certificate_pem)
    context.load_cert_chain(file)
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=AUTHORITY.certificate_pem.decode())

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"[]")

    async def run() -> CallReply:
        app = web.Application()
        app.router.add_post("/filter", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        extender = an_extender(**written, urlPrefix=f"https://127.0.0.1:{runner.addresses[0][1]}")
        client = ExtenderClient((extender,))
        try:
            return await client.ask(Call(extender, "filter", {}), b"{}")
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(run())


@pytest.fixture(scope="module")
def server() -> KeyPair:
    return sign_server(AUTHORITY, (), WallClock())


TRUSTED = {"caData": b64(AUTHORITY.certificate_pem)}
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "its authority is given": ({"tlsConfig": TRUSTED}, True),
    "its authority is given, and HTTPS enabled": ({"tlsConfig": TRUSTED, "enableHTTPS": True}, True),
    "another authority is given": ({"tlsConfig": {"caData": b64(OTHER.certificate_pem)}}, False),
    "nobody is named, so this machine decides": ({}, False),
    "nobody is named, but HTTPS enabled: nothing is checked": ({"enableHTTPS": True}, True),
    "nothing is to be checked": ({"tlsConfig": {"insecure": True}}, True),
    "the server has another name": ({"tlsConfig": {**TRUSTED, "serverName": "elsewhere"}}, False),
    "the server has this name": ({"tlsConfig": {**TRUSTED, "serverName": "kubernetes"}}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_whom_we_trust(case: str, server: KeyPair, tmp_path: Path) -> None:
    written, is_trusted = CASES[case]
    reply = ask(tmp_path, written, server)
    if is_trusted:
        assert reply == b"[]"
    else:
        assert isinstance(reply, CallFault)
        assert '/filter": tls: failed to verify certificate: x509: ' in reply.message


@pytest.mark.parametrize("from_files", [False, True])
def test_our_certificate_is_shown(from_files: bool, server: KeyPair, tmp_path: Path) -> None:
    pair = sign_client(AUTHORITY, "scheduler")
    tls: dict[str, Any] = {"certData": b64(pair.certificate_pem), "keyData": b64(pair.key_pem), **TRUSTED}
    if from_files:
        parts = {"certFile": pair.certificate_pem, "keyFile": pair.key_pem, "caFile": AUTHORITY.certificate_pem}
        for name, content in parts.items():
            (tmp_path / name).write_bytes(content)
        tls = {name: str(tmp_path / name) for name in parts}
    assert ask(tmp_path, {"tlsConfig": tls}, server, wants_client=True) == b"[]"
    reply = ask(tmp_path, {"tlsConfig": TRUSTED}, server, wants_client=True)
    assert isinstance(reply, CallFault), "without it there is no answer"


def test_data_counts_before_files(server: KeyPair, tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(OTHER.certificate_pem)
    assert ask(tmp_path, {"tlsConfig": {**TRUSTED, "caFile": str(tmp_path / "ca")}}, server) == b"[]"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an authority that nobody will ask": (
        {"insecure": True, **TRUSTED},
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    "an authority in a file that nobody will ask": (
        {"insecure": True, "caFile": "/nowhere"},
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    "a file that is not there": ({"caFile": "/nowhere/ca.pem"}, "open /nowhere/ca.pem: no such file or directory"),
    "a certificate that is none": (
        {"certData": b64(b"x"), "keyData": b64(b"x")},
        "the client certificate and its key are not PEM, or do not belong together",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_at_the_start(case: str) -> None:
    tls, text = REFUSED[case]
    with pytest.raises(ConfigError) as refusal:
        extender_context(an_extender(tlsConfig=tls))
    assert str(refusal.value) == f"couldn't build extenders: {text}"
    assert refusal.value.stage == "build"


def test_a_certificate_without_its_key_is_left_out() -> None:
    extender_context(an_extender(tlsConfig={"certFile": "/nowhere"}))
