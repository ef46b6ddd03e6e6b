"""`mooring snapshot`: what a running scheduler believes, for `mooring simulate`."""

import asyncio
from pathlib import Path

import click

from mooring.api.client.client import ApiClient
from mooring.api.client.credentials import CredentialsError, Identity
from mooring.api.client.reach import Access
from mooring.api.client.unanswered import Unanswered
from mooring.api.errors import ApiError
from mooring.cli.refusal import refuse
from mooring.web.running import SNAPSHOT_PATH

EPILOG = """
\b
Examples:
  mooring snapshot -o believed.json && mooring simulate believed.json --explain shop/cart-7d9f
  kubectl -n kube-system port-forward pod/mooring-... 10259 &  mooring snapshot -o believed.json

The scheduler lets callers on its own machine in, and others with a token that may `get` the path
/debug/mooring/snapshot (--token-file).
"""


@click.command(epilog=EPILOG, short_help="Save what a running scheduler believes, as input for `mooring simulate`.")
@click.option("--server", default="https://127.0.0.1:10259", show_default=True, help="Where `mooring run` serves.")
@click.option("--ca-file", type=click.Path(path_type=Path), help="Who signed its certificate; not checked without it.")
@click.option("--token-file", type=click.Path(path_type=Path), help="A bearer token to show.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Instead of standard output.")
def snapshot(server: str, ca_file: Path | None, token_file: Path | None, output: Path | None) -> None:
    """Save the nodes, pods (those about to be bound included) and other objects that the next decision counts with."""
    try:
        authority = ca_file.read_bytes() if ca_file is not None else b""
        token = token_file.read_text().strip() if token_file is not None else ""
    except OSError as fault:
        refuse(f"{fault.filename}: cannot be read: {fault.strerror}")
    credentials = Identity(token=token.encode() if token else None)
    access = Access(server.rstrip("/"), authority, skips_verification=ca_file is None, credentials=credentials)
    try:
        text = asyncio.run(_fetch(access))
    except (ApiError, Unanswered, CredentialsError) as fault:
        refuse(f"{fault}. Does `mooring run` serve at {server}? --server says where")
    if output is None:
        click.echo(text.decode())
    else:
        output.write_bytes(text)


async def _fetch(access: Access) -> bytes:
    async with ApiClient(access, "mooring-snapshot", qps=-1) as client:
        return await client.get_bytes(SNAPSHOT_PATH)
