"""Why a node is not the one of pending pods: the filter that rejects it, or what left it out before any filter ran."""

from io import BytesIO
from typing import Any, BinaryIO

import pytest

from build import a_node, a_pod
from mooring.dashboard.questions.asked_cluster import AskedCluster, QuestionHeader
from mooring.dashboard.questions.page_questions import rejections_on
from mooring.dashboard.questions.question_process import UNABLE, answered
from mooring.framework import config
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

NODES = (a_node("n1", cpu="4"), a_node("n2", cpu="4"))


def wanting(name: str, cpu: str, node: str | None = None, **fields: Any) -> Pod:
    """A pending pod; with `node` it is pinned to it, as pods of DaemonSets are."""
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        fields["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return a_pod(name, cpu=cpu, schedulerName="default-scheduler", **fields)


def asked(*pods: KubeObject, node: str = "n1") -> dict[str, Any]:
    return rejections_on(LoadedCluster([*NODES, *pods], config.default()), node)


def reasons(found: dict[str, Any]) -> list[tuple[str, str, int, str]]:
    return [(each["reason"], each["plugin"], each["count"], each["example"]["name"]) for each in found["pods"]]


def test_a_node_that_would_take_the_pods_has_no_reasons() -> None:
    assert asked(wanting("p", "1"), wanting("here", "1", node="n1")) == {"pods": [], "total": 0, "unasked": 0}


@pytest.mark.parametrize("cpu", ["1", "64"], ids=["the other node takes it", "it fits nowhere"])
def test_a_node_that_is_left_out_before_filters_run_has_the_reason_of_the_others(cpu: str) -> None:
    found = asked(wanting("pinned", cpu, node="n2"))
    assert reasons(found) == [("node(s) didn't satisfy plugin(s) [NodeAffinity]", "PreFilter", 1, "pinned")]
    assert found["total"] == 1


def test_reasons_are_ranked_by_their_pods_and_the_oldest_is_the_example() -> None:
    giants = [
        wanting(name, "64", metadata={"creationTimestamp": f"2026-01-0{day}T00:00:00Z"})
        for name, day in (("late", 3), ("first", 1), ("next", 2))
    ]
    gated = wanting("gated", "64", schedulingGates=[{"name": "example.com/wait"}])
    found = asked(*giants, gated, wanting("fits", "1"))
    assert reasons(found) == [
        ("Insufficient cpu", "NodeResourcesFit", 3, "first"),
        ("waiting for scheduling gates: [example.com/wait]", "SchedulingGates", 1, "gated"),
    ]
    assert (found["total"], found["unasked"]) == (4, 0)


def test_a_limited_number_of_forms_is_decided_the_largest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.dashboard.questions.page_questions.MAX_FORMS", 1)
    found = asked(wanting("alone", "65"), wanting("a", "64"), wanting("b", "64"))
    assert reasons(found) == [("Insufficient cpu", "NodeResourcesFit", 2, "a")]
    assert (found["total"], found["unasked"]) == (2, 1)


# ---- what goes to the process that answers, and what comes back


def test_half_characters_are_sent_as_question_marks() -> None:
    node = a_node("n", labels={"team": "half \ud83d"})
    first, sent = AskedCluster(QuestionHeader({}, []), [node], [], [], [], []).lines()
    assert first.startswith(b"{") and first.endswith(b"}\n")
    assert sent.startswith(b"Node {") and b'"half ?"' in sent


def test_a_fault_of_an_answer_is_a_document_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(lines: BinaryIO) -> dict[str, Any]:
        raise LookupError("x" * 600)

    told = f"LookupError: {'x' * 600}"[:500]
    assert answered(BytesIO(), broken) == (UNABLE, {"message": f"the question cannot be answered: {told}"})
    assert "LookupError" in capsys.readouterr().err


def test_a_lack_of_memory_is_left_to_the_process() -> None:
    def broken(lines: BinaryIO) -> dict[str, Any]:
        raise MemoryError

    with pytest.raises(MemoryError):
        answered(BytesIO(), broken)
