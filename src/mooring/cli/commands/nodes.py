"""`mooring nodes`: adds, removes, fails and drains nodes of a cluster that `mooring up` started.

The commands change the cluster through its API, and refuse every other cluster (`own_connection`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from mooring.api.api_errors import ApiError
from mooring.api.kinds import node_name
from mooring.apiclient.client import ApiClient
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.app import node_actions
from mooring.app.node_actions import NotOurs, own_connection
from mooring.cli.options import examples, path_option, read_node_template
from mooring.cli.options import node_template as template_option
from mooring.cli.refusal import refuse
from mooring.cli.suggesting_group import SuggestingGroup
from mooring.cli.terminal import tell

EPILOG = """
\b
Examples:
  mooring nodes add 10                    add ten nodes
  mooring nodes fail node-0001            stop its heartbeats; its pods move to other nodes
  mooring nodes recover node-0001
  mooring nodes drain node-0002           evict its pods, within their disruption budgets
  mooring nodes remove node-0002

These commands use the cluster of $KUBECONFIG, as `mooring up` prints it. They refuse any other cluster.

Exit status: 0 when it is done, 2 when the cluster is another one, cannot be reached or rejects the request.
"""

_kubeconfig = path_option("--kubeconfig", "The kubeconfig to use instead of $KUBECONFIG.", dir_okay=False)
_names = click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NODE...",
    callback=lambda context, param, names: tuple(map(node_name, names)),
)

_USER_AGENT = "mooring-nodes"
_HINT = "Use the export line that `mooring up` prints, or --kubeconfig"

Act = Callable[[ApiClient], Awaitable[None]]


@click.group(
    cls=SuggestingGroup, epilog=EPILOG, short_help="Add, remove, fail and drain nodes of a cluster of `mooring up`."
)
def nodes() -> None:
    """Add, remove, fail and drain nodes of a cluster that `mooring up` started."""


@nodes.command(
    epilog=examples("mooring nodes add 10", "mooring nodes add 3 --node-template big.yaml    from a manifest")
)
@click.argument("count", type=click.IntRange(1, 100_000), default=1)
@template_option
@_kubeconfig
def add(count: int, node_template: str | None, kubeconfig: Path | None) -> None:
    """Add COUNT nodes (default: one)."""
    template = read_node_template(node_template)

    async def act(client: ApiClient) -> None:
        async for name in node_actions.add(client, count, template):
            tell(f"{name} added")

    _run(act, kubeconfig)


@nodes.command(epilog=examples("mooring nodes remove node-0002"))
@_names
@_kubeconfig
def remove(names: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Remove nodes; their pods are lost."""
    _run_each(node_actions.remove, names, "removed", kubeconfig)


@nodes.command(epilog=examples("mooring nodes fail node-0001 node-0002"))
@_names
@_kubeconfig
def fail(names: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Stop the heartbeats of nodes, as if their machines failed."""
    _run_each(node_actions.fail, names, "failed", kubeconfig)


@nodes.command(epilog=examples("mooring nodes recover node-0001"))
@_names
@_kubeconfig
def recover(names: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Let failed nodes send heartbeats again."""
    _run_each(node_actions.recover, names, "recovered", kubeconfig)


@nodes.command(epilog=examples("mooring nodes drain node-0002"))
@_names
@_kubeconfig
def drain(names: tuple[str, ...], kubeconfig: Path | None) -> None:
    """Cordon nodes and evict their pods, waiting for disruption budgets."""

    async def act(client: ApiClient) -> None:
        for name in names:
            async for line in node_actions.drain(client, name):
                tell(line)

    _run(act, kubeconfig)


def _run_each(
    action: Callable[[ApiClient, str], Awaitable[None]], names: tuple[str, ...], done: str, kubeconfig: Path | None
) -> None:
    """Do one thing to each node, and print a line for each."""

    async def act(client: ApiClient) -> None:
        for name in names:
            await action(client, name)
            tell(f"{name} {done}")

    _run(act, kubeconfig)


def _run(act: Act, kubeconfig: Path | None) -> None:
    """Do something with a client of the cluster; refuse with a hint if there is none."""

    async def run() -> None:
        access = await own_connection(find_connection(kubeconfig), _USER_AGENT)
        async with ApiClient(access, _USER_AGENT, qps=-1) as client:
            await act(client)

    try:
        asyncio.run(run())
    except (KubeconfigError, NotOurs) as fault:
        refuse(f"{fault}. {_HINT}")
    except (ApiError, Unanswered, CredentialsError) as fault:
        refuse(fault)
