"""Pods without their specs: a spec that was written in this segment is referred to by number.

Most pods of a cluster come from some hundred templates, and two thirds of what is written of a pod is its spec. A line that
writes a pod as a whole may give its spec a number; later ones have the number, the node, the metadata and the status.
"""

from weakref import ref

from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.shape import PodShape
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved
from mooring.state.recording.concealed import Concealer
from mooring.state.recording.object_changes import is_same_but_for_node
from mooring.state.recording.steps import ADDED, LINES, REMOVED, Line, Outcomes

MAX_TEMPLATES = 1024
"""Specs that have numbers at once; beyond it all are numbered anew. They take some 2 MiB."""


class PodTemplates:
    """The specs that were written, as `added` and `removed` write them. `clear` when a segment begins: who reads it may have
    read none before."""

    def __init__(self) -> None:
        self._written: dict[ref[PodShape], tuple[int, PodSpec]] = {}
        """By shape, which is quicker to find than an equal spec. A shape ends with its pods."""

    def clear(self) -> None:
        self._written.clear()

    def added(self, passed_ns: int, outcomes: Outcomes, input: ObjectAdded, conceal: Concealer) -> Line:
        if type(input.item) is Pod:
            return self._line(ADDED, passed_ns, outcomes, input.item, conceal)
        return LINES[ObjectAdded](passed_ns, outcomes, input, conceal)

    def removed(self, passed_ns: int, outcomes: Outcomes, input: ObjectRemoved, conceal: Concealer) -> Line:
        if type(input.item) is Pod:
            return self._line(REMOVED, passed_ns, outcomes, input.item, conceal)
        return LINES[ObjectRemoved](passed_ns, outcomes, input, conceal)

    def _line(self, code: int, passed_ns: int, outcomes: Outcomes, pod: Pod, conceal: Concealer) -> Line:
        shown, shape = conceal(pod), pod.__dict__.get("shape")
        if shape is None:  # nothing has asked for it so far: that takes longer than to write the spec
            return code, passed_ns, outcomes, "Pod", shown
        written = self._written.get(ref(shape))
        if written is None:
            return code, passed_ns, outcomes, "Pod", shown, self._number(shape, pod.spec)
        number, spec = written
        if not is_same_but_for_node(spec, pod.spec):  # two templates of one shape: the first has the number
            return code, passed_ns, outcomes, "Pod", shown
        return code, passed_ns, outcomes, "Pod", number, pod.spec.node_name, shown.metadata, shown.status

    def _number(self, shape: PodShape, spec: PodSpec) -> int:
        """The number of a spec that is written now."""
        if len(self._written) >= MAX_TEMPLATES:
            self._written.clear()
        number = len(self._written)
        self._written[ref(shape)] = number, spec
        return number
