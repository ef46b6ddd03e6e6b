"""`mooring mcp`: the questions of Mooring as read-only tools for assistants, by the Model Context Protocol."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.answering import ClusterSource, asks_cluster
from mooring.cli.assistant_tools import AssistantTools
from mooring.cli.options import path_option
from mooring.cli.refusal import refuse
from mooring.inputs.input_errors import problems_of
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.version import VERSION

if TYPE_CHECKING:
    from mcp.server import MCPServer

EPILOG = """
\b
Examples:
  mooring mcp                                     questions about the cluster that kubectl would use
  mooring mcp --context prod --config scheduler.yaml
  mooring mcp --from dump.json.gz --studies examples/studies

\b
An assistant starts the command itself. In its settings:
  {"mcpServers": {"mooring": {"command": "mooring", "args": ["mcp", "--context", "prod"]}}}

\b
Tools: explain, what_if, capacity, plan, study. Nothing is changed, in the cluster or on this machine, and assistants cannot
name files. Answers have 20,000 characters at most. Needs the extra: pip install 'mooring[mcp]'.

\b
Exit status:
  0  standard input has ended
  2  the input is invalid
"""
INSTRUCTIONS = (
    "Questions about how a Kubernetes cluster schedules pods, answered with the decisions of its scheduler on a copy. "
    "Nothing is changed in the cluster. Begin with explain without a name: it lists the pending pods."
)
F = TypeVar("F", bound=Callable[..., str])


@click.command(epilog=EPILOG, short_help="Answer the questions of assistants, read-only (Model Context Protocol).")
@path_option("--studies", "A folder with studies (*.yaml) that assistants may run.", file_okay=False, exists=True)
@asks_cluster
def mcp(source: ClusterSource, studies: Path | None) -> None:
    """Serve explain, what-if, capacity, plan and study as tools of the Model Context Protocol, on standard input and
    output."""
    if "-" in source.sources:
        refuse("--from - cannot be used: standard input has the questions. Name a file")
    try:
        from mcp.server import MCPServer
    except ImportError:
        refuse("mooring mcp needs the SDK of the Model Context Protocol: pip install 'mooring[mcp]'")
    server = MCPServer("mooring", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING")
    with_tools(server, AssistantTools(_loader(source), studies)).run()


def with_tools(server: "MCPServer[Any]", tools: AssistantTools) -> "MCPServer[Any]":
    """The server, with all tools. Their descriptions are the docstrings."""
    from mcp_types import ToolAnnotations

    read_only = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in (tools.explain, tools.what_if, tools.capacity, tools.plan, tools.study):
        description = " ".join((tool.__doc__ or "").split())
        server.tool(tool.__name__, description=description, annotations=read_only, structured_output=False)(
            _with_tool_errors(tool)
        )
    return server


def _with_tool_errors(tool: F) -> F:
    """The tool, whose problems with its input are errors that the assistant reads."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def told(*args: Any, **kwargs: Any) -> str:
        try:
            return tool(*args, **kwargs)
        except SystemExit:
            raise ToolError("the input of `mooring mcp` cannot be used any more; its standard error says why") from None
        except Exception as fault:
            if problems := problems_of(fault, "configuration"):
                raise ToolError("\n".join(problems)) from None
            raise

    return told  # type: ignore[return-value]


def _loader(source: ClusterSource) -> Callable[[], LoadedCluster]:
    """Reads the cluster once now, so that what is wrong is said at the start; a live one again for each question."""
    first = source.load()
    if source.sources:
        return lambda: first

    def load_again() -> LoadedCluster:
        from mooring.inputs.live_source import read_live

        return source.scheduled(read_live(source.kubeconfig, source.context)[0])[0]

    return load_again
