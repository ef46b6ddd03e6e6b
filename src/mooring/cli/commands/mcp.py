"""`mooring mcp`: the questions of Mooring as read-only tools for assistants, by the Model Context Protocol.

An assistant names no files: the person who starts the command chooses the cluster and the folder of studies, and manifests
come as YAML. So a question can read only what it was given. All of it is read-only: changes are tried on copies.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.answers.capacity.capacity import capacity as ask_capacity
from mooring.answers.explain.explain import explain_named
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.pending.asked_pending import explain_pending
from mooring.answers.plan.plan import plan as ask_plan
from mooring.answers.study.study_file import read_study
from mooring.answers.study.study_plan import plan_study
from mooring.answers.study.studying import run_study
from mooring.answers.what_if.question import CHANGES
from mooring.answers.what_if.question import what_if as ask_what_if
from mooring.api.validation.problem import Problem, show
from mooring.cli.answering import ClusterSource, answer_blocks, asks_cluster, own_output
from mooring.cli.options import path_option
from mooring.cli.refusal import refuse
from mooring.cli.report import with_known_bars
from mooring.inputs.input_errors import InputError, problems_of
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.version import VERSION
from mooring.kit.yaml_reader import YamlFault, read_documents
from mooring.model.node import Node

if TYPE_CHECKING:
    from mcp.server import MCPServer


# ---- the tools: methods that take texts and return a text of bounded length

MAX_CHARACTERS = 20_000
"""The longest answer: some 6,000 tokens of a language model. Of each table the beginning is kept, which has the largest."""
MAX_INPUT_CHARACTERS = 200_000
"""The longest manifest."""
MAX_RUNS = 200
"""Runs of a study that one call makes at most."""
_MANIFESTS = ("apply", "config")
"""Changes whose value is a manifest."""


class AssistantTools:
    """The tools. One question is answered at a time. All methods raise InputError for what they are given.

    `load` reads the cluster: a file once, a live cluster for each question. `studies` is the folder with the studies that
    may be run; None: there are none.
    """

    def __init__(self, load: Callable[[], LoadedCluster], studies: Path | None = None) -> None:
        self._load, self._studies = load, studies
        self._lock = threading.Lock()

    @contextmanager
    def _asked(self) -> Iterator[LoadedCluster]:
        """The cluster, for one question. What plugins print does not get between the messages of the protocol."""
        with self._lock, own_output():
            yield self._load()

    def explain(self, name: str = "", namespace: str = "") -> str:
        """Say why a pod (`name`, `namespace/name`), a workload (`deployment/name`) or a pod group (`podgroup/name`) is where
        it is or pending, with what would place it, tried. Without a name: all pending pods of a namespace, or of all, by
        reason and by owner, and the one change that helps most of them."""
        with self._asked() as loaded:
            return _text(explain_named(loaded, name, namespace) if name else explain_pending(loaded, namespace))

    def what_if(self, changes: Sequence[Mapping[str, str]]) -> str:
        """Say what changes would do to the cluster, in their order, without making them. Each is {"change": C, "value": V}:
        drain, cordon, uncordon, remove-nodes (a node, or a label such as pool=old), add-nodes (N=NODE, nodes like that node),
        scale (KIND/[NAMESPACE/]NAME=N), delete (KIND/[NAMESPACE/]NAME), taint, label, apply (manifests as YAML), config (a
        KubeSchedulerConfiguration as YAML)."""
        with self._asked() as loaded:
            return _text(ask_what_if(loaded, [_change(loaded, each) for each in changes]))

    def capacity(self, pod: str, gang: int | None = None, preempt: bool = False) -> str:
        """Count how many more of a pod fit, where, and what stops the next one. `pod` is YAML: a Pod or a workload. `gang`
        counts whole gangs of so many pods; `preempt` counts pods that fit by evicting others of lower priority as well."""
        with self._asked() as loaded:
            return _text(ask_capacity(loaded, _object(pod, "pod"), gang=gang, preempt=preempt))

    def plan(self, offers: str = "", apply: str = "", shrink: bool = False) -> str:
        """Find which nodes to add at least cost so that all pending pods fit, or with `shrink` which nodes can go. `offers`
        is YAML: a list of nodes with prices; `apply` is YAML: manifests that are to fit as well."""
        with self._asked() as loaded:
            offered = _objects(offers, "offers") if offers else None
            if offered is not None and len(offered) == 1 and "offers" in offered[0]:
                offered = offered[0]
            return _text(ask_plan(loaded, offered, apply=_objects(apply, "apply") if apply else (), shrink=shrink))

    def study(self, name: str = "", only: Mapping[str, Sequence[str]] | None = None) -> str:
        """Run a study of the laboratory and summarise it; without a name, list the studies. `only` chooses runs, such as
        {"seed": ["1"]}."""
        found = {path.stem: path for path in sorted((self._studies or Path()).glob("*.yaml"))} if self._studies else {}
        if not name:
            return "\n".join(found) or "there are no studies: start `mooring mcp` with --studies FOLDER"
        if name not in found:
            raise InputError([Problem("name", show(name), f"one of: {', '.join(found) or 'none'}")])
        with self._lock, own_output():
            read = read_study(found[name])
            runs = len(plan_study(read, only))
            if runs > MAX_RUNS:
                raise InputError(f"the study has {runs} runs, and a call makes {MAX_RUNS} at most: choose with `only`")
            return _text(run_study(read, only=only, processes=1))


# ---- what tools are given


def _documents(text: str, argument: str) -> list[Any]:
    """The documents of a YAML text of limited size. Raises InputError."""
    if len(text) > MAX_INPUT_CHARACTERS:
        raise InputError([Problem(argument, f"{len(text):,} characters", f"at most {MAX_INPUT_CHARACTERS:,}")])
    try:
        return [value for value in read_documents(text) if value is not None]
    except YamlFault as fault:
        raise InputError([Problem(argument, f"line {fault.line}: {fault}")]) from None


def _objects(text: str, argument: str) -> list[Any]:
    """The objects of a YAML text, or of a list in it. A plain text is refused: it would be the name of a file."""
    documents = _documents(text, argument)
    items = documents[0] if len(documents) == 1 and isinstance(documents[0], list) else documents
    if not items or not all(isinstance(item, dict) for item in items):
        raise InputError([Problem(argument, show(text[:80]), "objects as YAML")])
    return items


def _object(text: str, argument: str) -> Any:
    items = _objects(text, argument)
    return items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}


def _change(loaded: LoadedCluster, written: Mapping[str, str]) -> tuple[str, Any]:
    """A change as `what_if` takes it. A text never names a file."""
    name, value = written.get("change", ""), written.get("value", "")
    if not isinstance(name, str) or not isinstance(value, str) or name not in CHANGES:
        raise InputError([Problem("changes", show(dict(written)), f"a change ({', '.join(CHANGES)}) and its value")])
    if name in _MANIFESTS:
        items = _objects(value, name)
        return name, items[0] if name == "config" else items
    if name == "add-nodes":
        template = value.partition("=")[2]
        if not any(isinstance(item, Node) and item.name == template for item in loaded.objects):
            raise InputError([Problem(name, show(value), "N=NODE with the name of a node of the cluster")])
    return name, value


# ---- what they answer


def _text(answer: ClusterAnswer) -> str:
    """The answer as the commands print it, within the limit."""
    return bounded([with_known_bars("\n".join(block)) for block in answer_blocks(answer, wide=False)])


def bounded(blocks: Sequence[str]) -> str:
    """Summary and tables, with an empty line between them. If they are longer than the limit, the longest ones lose lines at
    their ends, so that one long table does not hide those behind it."""
    limit = _block_limit([len(block) for block in blocks])
    return "\n\n".join(_beginning(block, limit) for block in blocks)


def _block_limit(lengths: Sequence[int]) -> int:
    """The characters that each block may have, so that all together are within the limit."""
    left, limit = MAX_CHARACTERS, 0
    for place, length in enumerate(sorted(lengths)):
        limit = left // (len(lengths) - place)
        left -= min(length, limit)
    return limit


def _beginning(text: str, limit: int) -> str:
    """The whole lines at the beginning of a text that are within a limit."""
    if len(text) <= limit:
        return text
    end = max(text.rfind("\n", 0, limit), 0) or limit
    left = text.count("\n", end)
    return f"{text[:end]}\n... {left} lines more: ask about a part of it"


# ---- the command

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
    "Nothing is changed in the cluster. Begin with explain without a name: it explains what is pending."
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
        server = _server()
    except ImportError:
        refuse("mooring mcp needs the SDK of the Model Context Protocol: pip install 'mooring[mcp]'")
    with_tools(server, AssistantTools(_loader(source), studies)).run()


def _server() -> "MCPServer[Any]":
    """A server that refuses arguments that a tool does not have. The SDK ignores them, and an assistant that passes a name as
    `pod` would take the answer about all pods for one about its own. Raises ImportError."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    class StrictServer(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            known = {tool.name: tool.input_schema.get("properties", {}) for tool in await self.list_tools()}
            if unknown := sorted(arguments.keys() - known.get(name, arguments).keys()):
                raise ToolError(f"{name} has no argument {', '.join(unknown)}; it has {', '.join(known[name])}")
            return await super().call_tool(name, arguments, context)

    return StrictServer("mooring", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING")


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
