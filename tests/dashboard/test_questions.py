"""Questions of the dashboard get the answers of the commands, from a process that may fail in any way."""

import asyncio
import base64
import io
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner

import staged_answering
from build import a_node, a_pod
from dashboard_stage import AnsweringThread, StagedClient, StagedSource, with_dashboard
from gangs import GROUP_GATES, a_group, a_member
from mooring.cli.main import main
from mooring.dashboard.interfaces import AskedChange, AskedChanges, ExplainPod, Refused, RejectionsOnNode
from mooring.dashboard.questions import child_questions
from mooring.dashboard.questions.asked_cluster import AskedCluster, AskedScheduler
from mooring.dashboard.questions.child_questions import ChildProcess, ChildQuestions, QuestionLimits
from mooring.dashboard.questions.question_process import END, answer_to, answered
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.framework.config import default
from mooring.model.meta import KubeObject
from mooring.serve.cache_debugger import snapshot

HOSTILE = ["../../etc/passwd", "<script>alert(1)</script>", "-o", "a\nb", "💥", "deployment", "' OR 1=1", "x" * 5000]


def a_small_cluster() -> list[KubeObject]:
    """Two nodes with a pod each; one pod that fits nowhere, one that a gate holds, one that would preempt."""
    return [
        a_node("n1", cpu="4", labels={"zone": "a"}),
        a_node("n2", cpu="8", labels={"zone": "b"}),
        a_pod("web-1", cpu="3", nodeName="n1"),
        a_pod("web-2", cpu="6", nodeName="n2"),
        a_pod("giant", cpu="64"),
        a_pod("gated", cpu="1", schedulingGates=[{"name": "example.com/wait"}]),
        a_pod("picky", cpu="1", nodeSelector={"zone": "c"}),
    ]


def a_source(*items: KubeObject) -> StagedSource:
    source = StagedSource(*(items or a_small_cluster()))
    source.driver.settle()
    return source


def questions_about(source: StagedSource, limits: QuestionLimits | None = None) -> ChildQuestions:
    return ChildQuestions(source, lambda: AskedScheduler(default()), limits=limits)


def printed(source: StagedSource, path: Path, *arguments: str, gates: Mapping[str, bool] | None = None) -> Any:
    """What a command prints about a snapshot of the same scheduler."""
    path.write_text(json.dumps(snapshot(source.scheduler, default(feature_gates=gates), gates)))
    command, *rest = arguments
    result = CliRunner().invoke(main, [command, "--from", str(path), "-o", "json", *rest])
    return json.loads(result.stdout)


@pytest.fixture
def answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered by a thread."""
    monkeypatch.setattr(child_questions, "ChildProcess", AnsweringThread)


# ---- the answers of the commands: one of each question from a process


def test_processes_answer_as_commands_do(tmp_path: Path) -> None:
    source = a_source()
    parts = DashboardParts(source, "0", questions_about(source))
    answer = with_dashboard(parts, lambda client: client.get("pods/default/giant/explanation"))
    assert answer == printed(source, tmp_path / "snapshot.json", "explain", "default/giant")
    status, answer = _post(source, {"changes": [{"change": "drain", "value": "n2"}]})
    assert (status, answer["answer"]) == (200, printed(source, tmp_path / "snapshot.json", "what-if", "--drain", "n2"))


@pytest.mark.usefixtures("answered_here")
@pytest.mark.parametrize("name", ["gated", "picky", "web-1"])
def test_an_explanation_is_that_of_the_command(tmp_path: Path, name: str) -> None:
    source = a_source()
    parts = DashboardParts(source, "0", questions_about(source))
    answer = with_dashboard(parts, lambda client: client.get(f"pods/default/{name}/explanation"))
    assert answer == printed(source, tmp_path / "snapshot.json", "explain", f"default/{name}")
    assert answer["kind"] == "Explanation"


@pytest.mark.usefixtures("answered_here")
def test_the_explanation_of_a_member_of_a_pending_group_is_that_of_the_group(tmp_path: Path) -> None:
    members = [a_member(f"p{i}") for i in range(4)]
    source = StagedSource(a_node("n1", cpu="3"), a_group("gang", 4), *members, gates=GROUP_GATES)
    while source.driver.attempt_once() is not None:
        pass
    questions = ChildQuestions(source, lambda: AskedScheduler(default(feature_gates=GROUP_GATES), GROUP_GATES))
    parts = DashboardParts(source, "0", questions)
    answer = with_dashboard(parts, lambda client: client.get("pods/default/p0/explanation"))
    assert (answer["kind"], answer["podGroup"], answer["fits"]) == ("PodGroupExplanation", "default/gang", 3)
    path = tmp_path / "snapshot.json"
    assert answer == printed(source, path, "explain", "default/p0", gates=GROUP_GATES)


@pytest.mark.usefixtures("answered_here")
def test_an_explanation_knows_what_only_the_scheduler_knows(tmp_path: Path) -> None:
    """The pod is in backoff: an object does not say until when."""
    source = StagedSource(*a_small_cluster())
    while source.driver.attempt_once() is not None:
        pass
    source.driver.create(a_node("n3", cpu="100"))
    assert source.scheduler.place_in_queue("default/giant") == "backoff"
    parts = DashboardParts(source, "0", questions_about(source))
    answer = with_dashboard(parts, lambda client: client.get("pods/default/giant/explanation"))
    assert any("backoff" in wait for wait in answer["waitsFor"])
    assert answer == printed(source, tmp_path / "snapshot.json", "explain", "default/giant")


CHANGES = [
    [("add-nodes", "2=n2"), ("cordon", "n1")],
    [("label", "n1=zone=c")],
    [("taint", "n2=dedicated=x:NoExecute"), ("uncordon", "zone=a"), ("remove-nodes", "n1")],
    [("delete", "Pod/default/web-2")],
]


@pytest.mark.usefixtures("answered_here")
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: " ".join(name for name, _ in changes))
def test_a_what_if_is_that_of_the_command(tmp_path: Path, changes: Sequence[tuple[str, str]]) -> None:
    source = a_source()
    body = {"changes": [{"change": name, "value": value} for name, value in changes]}
    status, answer = _post(source, body)
    flags = [text for name, value in changes for text in (f"--{name}", value)]
    assert status == 200
    assert answer["answer"] == printed(source, tmp_path / "snapshot.json", "what-if", *flags)


@pytest.mark.usefixtures("answered_here")
def test_a_what_if_shows_the_nodes_afterwards() -> None:
    status, answer = _post(a_source(), {"changes": [{"change": "add-nodes", "value": "1=n1"}]})
    after = answer["after"]
    assert (status, after["names"]) == (200, ["n1", "n2", "n1-new-1"])
    assert set(after["use"]) == set(after["resources"]) >= {"cpu", "memory", "pods"}
    assert list(base64.b64decode(after["use"]["cpu"])) == [150, 150, 0]
    assert base64.b64decode(after["pods"]) == b"\1\0\1\0\0\0"


@pytest.mark.usefixtures("answered_here")
def test_texts_of_manifests_and_configurations_are_taken_as_they_are() -> None:
    node = json.dumps({"apiVersion": "v1", "kind": "Node", **_plain(a_node("huge", cpu="100"))}, indent=1)
    config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    changes = [("apply", node), ("config", config), ("add-nodes", f"2={node}")]
    status, answer = _post(a_source(), {"changes": [{"change": name, "value": text} for name, text in changes]})
    assert status == 200, answer
    assert [each["node"] for each in answer["answer"]["placed"]] == ["huge"]
    assert answer["after"]["names"] == ["n1", "n2", "huge", "huge-1", "huge-2"]


def test_rejections_on_a_node() -> None:
    source = a_source(*a_small_cluster(), a_pod("giant-2", cpu="64"))
    answer = with_dashboard(
        DashboardParts(source, "0", questions_about(source)), lambda client: client.get("nodes/n1/rejections")
    )
    found = {(each["plugin"], each["reason"]): (each["count"], each["example"]["name"]) for each in answer["pods"]}
    assert found == {
        ("NodeResourcesFit", "Insufficient cpu"): (2, "giant"),
        ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"): (1, "picky"),
        ("SchedulingGates", "waiting for scheduling gates: [example.com/wait]"): (1, "gated"),
    }
    assert (answer["total"], answer["unasked"]) == (4, 0)


def _plain(item: KubeObject) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(item)
    return written


def _post(source: StagedSource, body: Any) -> tuple[int, Any]:
    async def ask(client: StagedClient) -> tuple[int, Any]:
        status, answer, _ = await client.ask("POST", "/dashboard/api/what-if", json=body)
        return status, answer

    return with_dashboard(DashboardParts(source, "0", questions_about(source)), ask)


# ---- what is refused


REFUSED = [
    ([], "no change: name at least one"),
    ([("drain", "n3")], 'no node "n3" among 2 nodes'),
    ([("explode", "n1")], "no change 'explode'"),
    ([("scale", "Deployment/default/web=3")], "no Deployment"),
    ([("config", "kind: [")], "configuration:"),
    ([("config", "/etc/hostname")], "configuration:"),
    ([("apply", "/etc/hostname")], "the text must be objects"),
    ([("apply", "a: [")], "apply, line 2"),
    ([("add-nodes", "1=/etc/hostname")], '"/etc/hostname" is not a node of the cluster'),
    ([("add-nodes", "1=/dev/zero")], "is not a node of the cluster"),
    ([("add-nodes", "99999999=n1")], "whole number from 0 to 100000"),
    ([("drain", "n1")] * 101, "at most 100"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_the_command_line_refuses_is_refused(changes: Sequence[tuple[str, str]], message: str) -> None:
    """In this process, because each of its own takes a second."""
    source = a_source()
    asked = AskedChanges([AskedChange(name, value) for name, value in changes])
    lines = [*AskedCluster.of(source.scheduler, AskedScheduler(default()), asked).lines(), END]
    status, answer = answered(io.BytesIO(b"".join(lines)), answer_to)
    assert status == 422
    assert message in answer["message"]


def test_a_refusal_goes_all_the_way() -> None:
    status, answer = _post(a_source(), {"changes": [{"change": "drain", "value": "n3"}]})
    assert (status, answer) == (422, {"message": 'drain n3: no node "n3" among 2 nodes'})


def test_hostile_names_are_only_names() -> None:
    source = a_source()

    async def ask(client: StagedClient) -> None:
        for name in HOSTILE:
            path = quote(name, safe="")
            for where in (f"pods/{path}/x/explanation", f"pods/default/{path}/explanation", f"nodes/{path}/rejections"):
                status, answer, _ = await client.ask("GET", f"/dashboard/api/{where}")
                assert (status, set(answer)) == (404, {"message"}), where
                assert len(answer["message"]) < 1100

    with_dashboard(DashboardParts(source, "0", questions_about(source)), ask)


def test_half_characters_of_one_pod_do_not_stop_questions_about_others() -> None:
    broken = a_pod("broken", cpu="64", status={"nominatedNodeName": "n\ud800"})
    source = a_source(*a_small_cluster(), broken)
    asked = RejectionsOnNode("n1")
    lines = [*AskedCluster.of(source.scheduler, AskedScheduler(default()), asked).lines(), END]
    status, answer = answered(io.BytesIO(b"".join(lines)), answer_to)
    assert (status, answer["total"]) == (200, 4)


@pytest.mark.parametrize("sent", [1, 3, -1], ids=["no object", "a part", "all but the last line"])
def test_a_cluster_of_which_lines_are_missing_is_not_answered(sent: int) -> None:
    """The parent was killed while it sent them."""
    asked = RejectionsOnNode("n1")
    lines = [*AskedCluster.of(a_source().scheduler, AskedScheduler(default()), asked).lines(), END]
    with pytest.raises(SystemExit, match="the parent has ended"):
        answered(io.BytesIO(b"".join(lines[:sent])), answer_to)


@pytest.mark.usefixtures("answered_here")
def test_a_namespace_may_have_the_name_of_a_kind() -> None:
    source = a_source(a_node("n1", cpu="1"), a_pod("x", cpu="9", namespace="deployment"))
    parts = DashboardParts(source, "0", questions_about(source))
    answer = with_dashboard(parts, lambda client: client.get("pods/deployment/x/explanation"))
    assert answer["pod"] == "deployment/x"


# ---- processes that fail


def misbehaving(
    monkeypatch: pytest.MonkeyPatch, how: str, limits: QuestionLimits | None = None, told: list[str] | None = None
) -> ChildQuestions:
    monkeypatch.setenv(staged_answering.HOW, how)
    monkeypatch.setattr(child_questions, "MODULE", "staged_answering")
    report = told.append if told is not None else lambda text: None
    return ChildQuestions(
        a_source(), lambda: AskedScheduler(default()), limits=limits, report=lambda text, fault: report(text)
    )


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[ChildProcess]:
    """All processes that were started."""
    started: list[ChildProcess] = []

    class Noted(ChildProcess):
        def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
            super().__init__(arguments, environment)
            started.append(self)

    monkeypatch.setattr(child_questions, "ChildProcess", Noted)
    return started


FAILURES = [
    ("raise", None, "cannot be answered: RuntimeError: a plugin"),
    ("sleep", QuestionLimits(seconds=0.5), "takes longer than 0.5 seconds"),
    ("not reading", QuestionLimits(seconds=0.5), "takes longer than 0.5 seconds"),
    ("spin", QuestionLimits(processor_s=1), "more than 1 seconds of processor time"),
    ("fill", None, "needs more memory than"),
    ("flood", QuestionLimits(answer_bytes=1000), "the answer has more than 0 MiB"),
    ("killed", None, "or too much memory"),
    ("exit", None, "ended with status 7"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "limits", "message"), FAILURES, ids=[how for how, _, _ in FAILURES])
def test_a_process_that_fails_is_one_refusal(
    monkeypatch: pytest.MonkeyPatch,
    processes: list[ChildProcess],
    how: str,
    limits: QuestionLimits | None,
    message: str,
) -> None:

    async def ask() -> None:
        questions = misbehaving(monkeypatch, how, limits)
        with pytest.raises(Refused) as caught:
            await questions.ask(RejectionsOnNode("n1"))
        assert caught.value.status == 503
        assert message in caught.value.message
        assert [each.status is None for each in processes] == [False]
        if how == "raise":
            monkeypatch.setenv(staged_answering.HOW, "nothing")
            assert await questions.ask(RejectionsOnNode("n1")), "the next question is answered"

    asyncio.run(ask())


def test_what_plugins_print_is_no_part_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        answer = await misbehaving(monkeypatch, "print").ask(RejectionsOnNode("n1"))
        assert json.loads(answer) == {"limits": {"nice": min(os.nice(0) + 10, 19)}}

    asyncio.run(ask())


def test_faults_of_the_process_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def ask() -> None:
        with pytest.raises(Refused):
            await misbehaving(monkeypatch, "raise", told=told).ask(RejectionsOnNode("n1"))

    asyncio.run(ask())
    assert "RuntimeError" in told[0]


def test_a_cluster_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, processes: list[ChildProcess]) -> None:
    async def ask() -> None:
        questions = misbehaving(monkeypatch, "sleep", QuestionLimits(input_bytes=10))
        monkeypatch.setattr(child_questions, "CHUNK", 100)
        with pytest.raises(Refused, match="the cluster has more than 0 MiB"):
            await questions.ask(RejectionsOnNode("n1"))
        assert processes[0].status is not None

    asyncio.run(ask())


def test_a_question_whose_client_goes_away_ends_its_process(
    monkeypatch: pytest.MonkeyPatch, processes: list[ChildProcess]
) -> None:
    async def ask() -> None:
        questions = misbehaving(monkeypatch, "sleep")
        asked = asyncio.create_task(questions.ask(RejectionsOnNode("n1")))
        while not processes:
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert [each.status is None for each in processes] == [False]

    asyncio.run(ask())


def test_a_browser_that_leaves_ends_its_question(
    monkeypatch: pytest.MonkeyPatch, processes: list[ChildProcess]
) -> None:
    questions = misbehaving(monkeypatch, "sleep")

    async def ask(client: StagedClient) -> None:
        asked = asyncio.create_task(client.get("nodes/n1/rejections"))
        while not processes:
            await asyncio.sleep(0.01)
        asked.cancel()
        while processes[0].status is None:
            await asyncio.sleep(0.01)

    with_dashboard(DashboardParts(a_source(), "0", questions), ask)


def test_few_questions_wait_and_others_are_sent_away(
    monkeypatch: pytest.MonkeyPatch, processes: list[ChildProcess]
) -> None:
    async def ask() -> None:
        questions = misbehaving(monkeypatch, "sleep")
        waiting = [asyncio.create_task(questions.ask(AskedChanges([AskedChange("drain", f"n{i}")]))) for i in range(5)]
        while not processes:
            await asyncio.sleep(0.01)
        with pytest.raises(Refused) as caught:
            await questions.ask(RejectionsOnNode("n1"))
        assert (caught.value.status, caught.value.retry_s) == (429, 5)
        assert len(processes) == 1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        monkeypatch.setenv(staged_answering.HOW, "nothing")
        assert await questions.ask(RejectionsOnNode("n1"))

    asyncio.run(ask())


def test_an_answer_is_kept_until_the_cluster_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        source = a_source()
        questions = ChildQuestions(source, lambda: AskedScheduler(default()), limits=QuestionLimits(kept_s=600))
        first = await questions.ask(ExplainPod("default", "giant"))
        monkeypatch.setattr(child_questions, "MODULE", "no_such_module")
        assert await questions.ask(ExplainPod("default", "giant")) is first
        with pytest.raises(Refused):
            await questions.ask(ExplainPod("default", "picky"))
        source.driver.create(a_node("n9", cpu="1"))
        with pytest.raises(Refused):
            await questions.ask(ExplainPod("default", "giant"))

    asyncio.run(ask())


@pytest.mark.parametrize(
    "has_ended",
    [
        pytest.param(False, id="a process that runs"),
        pytest.param(True, id="a process that has ended, before its pipes are read"),
    ],
)
def test_closing_ends_what_is_under_way(
    has_ended: bool, monkeypatch: pytest.MonkeyPatch, processes: list[ChildProcess]
) -> None:
    async def ask() -> None:
        questions = misbehaving(monkeypatch, "exit" if has_ended else "sleep")
        asked = asyncio.create_task(questions.ask(RejectionsOnNode("n1")))
        while not processes:
            await asyncio.sleep(0)
        while has_ended and processes[0].status is None:
            time.sleep(0.01)  # the event loop does nothing meanwhile
        await questions.close()
        with pytest.raises(Refused):
            await asked

    asyncio.run(ask())
