"""`mooring snapshot`: fetches the state of a running scheduler from its debug page, as input for `mooring simulate`.

The snapshot has what the scheduler knows, which may differ from the API server while watches lag behind.
"""

import asyncio
from pathlib import Path

import click

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError, Identity
from mooring.apiclient.http_requests import Unanswered
from mooring.app.run import SNAPSHOT_PATH
from mooring.cli.options import path_option
from mooring.cli.refusal import refuse, writing
from mooring.cli.terminal import tell_json_text
from mooring.kit.bounded_reading import read_file
from mooring.kit.private_files import write_private
from mooring.kit.shown_text import shown_url

EPILOG = """
\b
Examples:
  mooring snapshot -o believed.json && mooring simulate believed.json --explain shop/cart-7d9f
  kubectl -n kube-system port-forward pod/mooring-... 10259 &  mooring snapshot -o believed.json

The scheduler accepts callers on its own machine, and callers with a token (--token-file) that may `get` the path
/debug/mooring/snapshot.

Exit status: 0 when the snapshot is saved, 2 when the scheduler does not answer or rejects the request, or when the file
cannot be written.
"""


@click.command(epilog=EPILOG, short_help="Save the state of a running scheduler, as input for `mooring simulate`.")
@click.option("--server", default="https://127.0.0.1:10259", show_default=True, help="The address of `mooring run`.")
@path_option("--ca-file", "The CA of its certificate; without it the certificate is not verified.")
@path_option("--token-file", "A bearer token to send.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, instead of standard output.",
)
def snapshot(server: str, ca_file: Path | None, token_file: Path | None, output: Path | None) -> None:
    """Save the objects that the next decision reads, with the configuration and the feature gates of the scheduler.

    Pods that the scheduler is about to bind are saved with their node.
    """
    try:
        authority = read_file(ca_file) if ca_file is not None else b""
        token = read_file(token_file).decode(errors="replace").strip() if token_file is not None else ""
    except OSError as fault:
        refuse(f"{fault.filename}: cannot be read: {fault.strerror}")
    credentials = Identity(token=token.encode() if token else None)
    access = ConnectionSettings(
        server.rstrip("/"), authority, skips_verification=ca_file is None, credentials=credentials
    )
    try:
        text = asyncio.run(_fetch(access))
    except (ApiError, Unanswered, CredentialsError) as fault:
        refuse(f"{fault}. Check that `mooring run` serves at {shown_url(server)}, or give its address with --server")
    if output is None:
        tell_json_text(text)
    else:
        with writing(output):
            write_private(output, text)  # it has the objects of a cluster


async def _fetch(access: ConnectionSettings) -> bytes:
    async with ApiClient(access, "mooring-snapshot", qps=-1) as client:
        return await client.get_bytes(SNAPSHOT_PATH)
