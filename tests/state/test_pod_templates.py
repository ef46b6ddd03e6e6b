"""Pods are written without specs that were written before, and read as they were."""

from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.model.pod import Pod
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved
from mooring.state.recording import recorder
from mooring.state.recording.recorded_steps import ADDED, REMOVED, Concealer, Line, block_of
from mooring.state.recording.recorder import PodTemplates
from mooring.state.recording.run_reading import StepReader
from mooring.state.recording.segment_file import RecordingError

PODS = st.builds(
    lambda cpu, priority, node, labels, phase, is_known: _pod(cpu, priority, node, labels, phase, is_known),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([None, 7]),
    st.sampled_from(["", "n1", "n2"]),
    st.dictionaries(st.sampled_from("ab"), st.text(max_size=3), max_size=2),
    st.sampled_from(["", "Running"]),
    st.booleans(),
)


def _pod(cpu: str, priority: int | None, node: str, labels: dict[str, str], phase: str, is_known: bool) -> Pod:
    pod = a_pod("p", cpu=cpu, labels=labels, priority=priority, node=node)
    pod.status.phase = phase
    assert not is_known or pod.shape
    return pod


def line(templates: PodTemplates, change: ObjectAdded | ObjectRemoved) -> Line:
    code = ADDED if isinstance(change, ObjectAdded) else REMOVED
    return code, 1, (), *templates.parts(change, Concealer())


def read(lines: list[Line]) -> list[Input | None]:
    return [step.input for step in StepReader(0).steps(block_of(lines))]


@given(st.lists(st.tuples(PODS, st.booleans(), st.booleans()), min_size=1, max_size=12), st.integers(1, 3))
def test_what_is_read_is_what_was_written(steps: list[tuple[Pod, bool, bool]], limit: int) -> None:
    """Whatever comes before it in a segment, and with few numbers; the reader may come from the segment before."""
    templates, segment, lines, inputs = PodTemplates(), 0, list[Line](), list[Input]()
    with mock.patch.object(recorder, "MAX_TEMPLATES", limit):
        for pod, is_removal, begins in steps:
            if begins:
                templates.clear()
                segment = len(lines)
            input = ObjectRemoved(pod) if is_removal else ObjectAdded(pod)
            lines.append(line(templates, input))
            inputs.append(input)
    assert read(lines) == inputs
    assert read(lines[segment:]) == inputs[segment:]


def test_the_spec_of_a_template_is_written_once() -> None:
    templates, pods = PodTemplates(), [a_pod(f"p{number}", cpu="1") for number in range(3)]
    assert pods[0].shape is pods[1].shape is pods[2].shape
    sizes = [len(msgspec.json.encode(line(templates, ObjectAdded(pod)))) for pod in pods]
    assert sizes[0] > 1.5 * sizes[1] and sizes[1] == sizes[2]
    assert b"containers" in msgspec.json.encode(line(templates, ObjectAdded(a_pod("p3", cpu="1")))), (
        "no shape, no number"
    )


def test_other_kinds_are_written_whole() -> None:
    node = a_node("n1")
    assert read([line(PodTemplates(), ObjectAdded(node)), line(PodTemplates(), ObjectRemoved(node))]) == [
        ObjectAdded(node),
        ObjectRemoved(node),
    ]


@pytest.mark.parametrize(
    "about",
    [("Pod", 5, "n1", {}, {}), ("Pod", 0, "n1"), ("Pod",), ("Node", 0, "n1", {}, {}), ("Pod", {}, "x")],
    ids=["a number nobody gave", "cut", "nothing", "not a pod", "a number that is none"],
)
def test_a_line_that_makes_no_sense_says_so(about: tuple[object, ...]) -> None:
    defined = line(templates := PodTemplates(), ObjectAdded(_pod("1", None, "", {}, "", True)))
    assert templates and defined[-1] == 0
    with pytest.raises(RecordingError, match="a step cannot be read"):
        read([defined, (1, 1, (), *about)])
