"""The TLS contexts of aiohttp get the authorities of the system with their first connection, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from mooring.apiclient.certificates import CertificateFiles

SCRIPT = """
import ssl
import {module}
from aiohttp import connector

for context in (connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED):
    before = len(context.get_ca_certs())
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example")
    print(before, len(context.get_ca_certs()), context.verify_mode.name, context.check_hostname, vars(context))
print(len(ssl.create_default_context().get_ca_certs()))
"""


def said_with(module: str, scratch: Path) -> list[str]:
    """What the script prints on a system with one authority."""
    authority = scratch / "ca.pem"
    authority.write_bytes(CertificateFiles().authority_pem)
    environment = {**os.environ, "SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": str(scratch / "none")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module)], capture_output=True, text=True, env=environment
    )
    return run.stdout.splitlines()


def test_the_authorities_come_with_the_first_connection(tmp_path: Path) -> None:
    late = ["0 1 CERT_REQUIRED True {}", "0 1 CERT_NONE False {}", "1"]
    assert said_with("mooring.kit.late_authorities", tmp_path) == late
    assert said_with("mooring.apiclient.proxy_transport", tmp_path) == late
    assert said_with("mooring.drivers.extender_calls", tmp_path) == late


def test_a_scheduler_without_proxy_extenders_and_pages_imports_neither_aiohttp_nor_cryptography() -> None:
    """Both take a tenth of the start of `mooring run`. The shell of the pages imports aiohttp for the first connection."""
    script = "import sys, mooring.cli.commands.run; print({'aiohttp', 'cryptography', 'mooring'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "{'mooring'}\n"


def test_aiohttp_alone_has_the_same_with_its_import(tmp_path: Path) -> None:
    assert said_with("aiohttp", tmp_path) == ["1 1 CERT_REQUIRED True {}", "1 1 CERT_NONE False {}", "1"]
