"""`mooring mcp`, asked by the client of the SDK over standard input and output: one process for all questions."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from forked_commands import run_mooring
from mooring.cli.commands.mcp import MAX_CHARACTERS, MAX_INPUT_CHARACTERS, AssistantTools, bounded
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import load

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
CLUSTER = ROOT / "examples" / "cluster.yaml"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]}
"""


def asked(question: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        arguments = [
            "-m",
            "mooring.cli.main",
            "mcp",
            "--from",
            str(CLUSTER),
            "--studies",
            str(ROOT / "examples/studies"),
        ]
        server = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
        # Its default is the standard error of the process that imported it, which tests have closed since.
        async with Client(stdio_client(server, errlog=sys.stderr)) as client:
            await question(client)

    asyncio.run(asyncio.wait_for(main(), 120))


def printed(*words: str) -> str:
    """What the command prints on standard output, without the empty line at its end."""
    return run_mooring(*words).stdout.rstrip("\n")


def test_an_assistant_gets_the_answers_of_the_commands_and_reads_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)

    async def question(client: Client) -> None:
        async def ask(tool: str, **arguments: Any) -> tuple[bool, str]:
            result = await client.call_tool(tool, arguments)
            (content,) = result.content
            return bool(result.is_error), content.text  # type: ignore[union-attr]

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*tools] == ["explain", "what_if", "capacity", "plan", "study"]
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools.values())
        assert "deployment/name" in (tools["explain"].description or "")

        place = ("--from", str(CLUSTER))
        assert await ask("explain") == (False, printed("explain", *place))
        first = load(CLUSTER).pending()[0].key
        assert await ask("explain", namespace="shop") == (False, printed("explain", "-n", "shop", *place))
        assert await ask("explain", name=first) == (False, printed("explain", first, *place))
        drained = await ask("what_if", changes=[{"change": "drain", "value": "b-1"}])
        assert drained == (False, printed("what-if", "--drain", "b-1", *place))
        assert await ask("capacity", pod=POD) == (False, printed("capacity", str(tmp_path / "pod.yaml"), *place))
        assert await ask("plan", shrink=True) == (False, printed("plan", "--shrink", *place))
        assert await ask("study") == (False, "fragmentation\npacking")
        chosen = await ask("study", name="packing", only={"seed": ["1"], "workload": ["pending"]})
        runs = ("--only", "seed=1", "--only", "workload=pending")
        assert chosen == (False, printed("study", str(ROOT / "examples/studies/packing.yaml"), *runs))

        for tool, arguments, problem in (
            ("explain", {"name": "nowhere"}, "nowhere"),
            ("explain", {"pod": "shop/nowhere"}, "explain has no argument pod; it has name, namespace"),
            ("what_if", {"changes": [{"change": "burn", "value": "x"}]}, "a change (drain, cordon"),
            ("what_if", {"changes": [{"change": "apply", "value": "/etc/passwd"}]}, "objects as YAML"),
            ("what_if", {"changes": [{"change": "add-nodes", "value": "3=/etc/passwd"}]}, "the name of a node"),
            ("capacity", {"pod": "kind: ["}, "pod: line 2"),
            ("plan", {"offers": "/etc/passwd"}, "objects as YAML"),
            ("study", {"name": "../day"}, "one of: fragmentation, packing"),
            ("study", {"name": "fragmentation"}, "traces"),
        ):
            is_error, text = await ask(tool, **arguments)
            assert is_error and problem in text, (tool, text)
            assert "Traceback" not in text
        assert (await ask("explain"))[0] is False, "the server answers after errors"

    asked(question)


def test_an_assistant_reads_what_is_pending_and_the_change_that_helps_however_many_owners_there_are() -> None:
    """A table has 100 rows, and rows with names of 200 characters are longer than an answer may be."""
    owners = [
        {
            **yaml.safe_load(POD),
            "metadata": {"name": f"p{i}", "ownerReferences": [owner_of(f"{'x' * 200}-{i}")]},
        }
        for i in range(600)
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True}}
    node["status"] = {"allocatable": {"cpu": "1000", "memory": "1Ti", "pods": "1000"}}
    text = AssistantTools(lambda: load([node, *owners])).explain()
    assert text.splitlines()[0] == "600 of 600 pods of 600 owners are pending"
    assert "lines more: ask about a part of it" in text and len(text) < MAX_CHARACTERS + 100
    assert text.splitlines()[-2].split()[2:5] == ["uncordon", "node", "n"], "the last table is still there"


def owner_of(name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", "nowhere.yaml"), "nowhere.yaml: cannot be read: No such file or directory"),
        (("--from", "-"), "--from - cannot be used: standard input has the questions. Name a file"),
    ],
    ids=["a file that is not there", "standard input"],
)
def test_what_is_wrong_with_the_cluster_is_told_at_the_start(arguments: tuple[str, ...], told: str) -> None:
    ran = run_mooring("mcp", *arguments)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"{told}\n")


def test_it_ends_with_standard_input() -> None:
    ran = run_mooring("mcp", "--from", str(CLUSTER))
    assert (ran.returncode, ran.stdout) == (0, "")


def test_answers_and_manifests_are_bounded() -> None:
    lines = [f"line {number}" for number in range(5000)]
    kept = bounded(["\n".join(lines)]).splitlines()
    assert kept[:-1] == lines[: len(kept) - 1]
    assert kept[-1] == f"... {5000 - len(kept) + 1} lines more: ask about a part of it"
    assert MAX_CHARACTERS - 20 < len("\n".join(kept[:-1])) <= MAX_CHARACTERS
    assert bounded(["x" * (MAX_CHARACTERS + 1)]) == f"{'x' * MAX_CHARACTERS}\n... 0 lines more: ask about a part of it"
    assert bounded(["first", "second"]) == "first\n\nsecond"
    first, long, *longer, last = bounded(["first", "\n".join(lines), "\n".join(lines), "last"]).split("\n\n")
    assert (first, last) == ("first", "last"), "a long table does not hide what is behind it"
    assert long == longer[0] and MAX_CHARACTERS - 100 < 2 * len(long) < MAX_CHARACTERS + 100

    pods = [{**yaml.safe_load(POD), "metadata": {"name": f"p{number}"}} for number in range(150)]
    tools = AssistantTools(lambda: load(pods))
    assert tools.explain().splitlines()[0] == "150 of 150 pods of 150 owners are pending"
    with pytest.raises(InputError, match="at most 200,000"):
        tools.capacity("#" * (MAX_INPUT_CHARACTERS + 1))
    bomb = "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}' if i else 'x'] * 9)}]\n" for i in range(12))
    with pytest.raises(InputError, match="alias"):
        tools.capacity(bomb)
