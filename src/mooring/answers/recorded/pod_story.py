"""What happened to one pod of a recording, and why it went where it went: the answer of `mooring replay --pod`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mooring.answers.explain.explanation import PodExplanation
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, Time, data_table
from mooring.answers.recorded.decision_difference import StepDifference, difference_table
from mooring.kit.clock import NS_PER_S, in_micros, in_seconds
from mooring.sim.results import Moment, show_seconds


@dataclass(frozen=True, slots=True)
class PodFacts:
    """When a pod came, got its node and left, in nanoseconds; None: it did not, or not while it was recorded."""

    arrived_ns: int | None = None
    bound_ns: int | None = None
    node: str = ""
    left_ns: int | None = None
    evicted_for: str = ""


@dataclass(frozen=True, repr=False)
class PodStory(ClusterAnswer):
    """The story of a pod."""

    kind: ClassVar[str] = "ReplayedPod"
    pod: str
    facts: PodFacts
    moments: Sequence[Moment]
    left_out: int = 0
    """How many earlier moments were dropped."""
    decided_ns: int | None = None
    """When the decision was made that `explanation` is about."""
    explanation: PodExplanation | None = None
    """Of the decision that gave the pod its node, or of the last one that did not."""
    was_nominated: bool = False
    """Whether that node was promised to the pod, after others were evicted for it: then no other node is looked at."""
    differences: Sequence[StepDifference] = ()
    """Decisions about the pod that came out otherwise than they were recorded."""
    problems: Sequence[str] = ()

    @property
    def is_equal(self) -> bool:
        return not self.differences

    # ---- as text

    def summary(self) -> list[str]:
        lines = [f"{self.pod} {'; '.join(self._facts())}"]
        for difference in self.differences:
            lines += [f"At {in_micros(difference.at_ns)} the replay differs: {difference.kind}"]
            lines += [
                *(f"  then: {text}" for text in difference.recorded),
                *(f"  now:  {text}" for text in difference.ours),
            ]
        return lines + self._why()

    def _facts(self) -> Iterator[str]:
        facts = self.facts
        if facts.arrived_ns is None:
            yield "was there before the recording"
        else:
            yield f"arrived at {in_seconds(facts.arrived_ns)}"
        if facts.bound_ns is not None:
            waited = (
                ""
                if facts.arrived_ns is None
                else f" after {show_seconds((facts.bound_ns - facts.arrived_ns) / NS_PER_S)}"
            )
            yield f"went to {facts.node} at {in_seconds(facts.bound_ns)}{waited}"
        elif facts.node:
            yield f"was on {facts.node}"
        else:
            yield "got no node"
        if facts.evicted_for:
            yield f"was evicted for {facts.evicted_for}"
        if facts.left_ns is not None:
            yield f"left at {in_seconds(facts.left_ns)}"

    def _why(self) -> list[str]:
        if self.explanation is None or self.decided_ns is None:
            return []
        head, *rest = self.explanation.summary()
        if self.explanation.node:
            reason = "it was nominated to this node" if self.was_nominated else self.explanation.among()
            head = f"It went to {self.explanation.node}: {reason}"
            rest = [line for line in rest if not line.startswith("It waits for ")]
        return ["", f"The decision at {in_micros(self.decided_ns)}:", head, *rest]

    def tables(self) -> list[AnswerTable]:
        rows = [(in_micros(m.at_ns), m.attempt or "-", m.text) for m in self.moments]
        left_out = f" (without {self.left_out:,} earlier moments)" if self.left_out else ""
        explained = [] if self.explanation is None else [each for each in self.explanation.tables() if each.rows]
        return [
            *(each for each in explained if each.title != "History"),
            AnswerTable(f"Story{left_out}", ("at", "attempt", "what"), rows),
        ]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        moments = ((each.at_ns, each.attempt or None, each.text) for each in self.moments)
        return {
            "story": data_table({"at": Time, "attempt": int, "text": str}, moments),
            "differences": difference_table(self.differences),
            **({} if self.explanation is None else self.explanation.data_tables()),
        }

    def content(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "pod": self.pod,
            "equal": self.is_equal,
            "arrived": _time(facts.arrived_ns),
            "bound": _time(facts.bound_ns),
            "node": facts.node,
            "left": _time(facts.left_ns),
            "evictedFor": facts.evicted_for,
            "story": [{"at": in_micros(m.at_ns), "attempt": m.attempt, "text": m.text} for m in self.moments],
            "decided": _time(self.decided_ns),
            "nominated": self.was_nominated,
            "explanation": None if self.explanation is None else self.explanation.content(),
            "differences": [each.content() for each in self.differences],
            "problems": list(self.problems),
        }


def _time(moment_ns: int | None) -> str:
    return "" if moment_ns is None else in_micros(moment_ns)
