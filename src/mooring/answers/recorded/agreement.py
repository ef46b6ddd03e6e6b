"""The answer to "would Mooring have decided the same?"."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median_low
from typing import Annotated, ClassVar

import msgspec

from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, data_table
from mooring.answers.form.published import Count, Form, Positive
from mooring.answers.recorded.judging import BindingForm, BindingVerdict, JudgedBinding, binding_table
from mooring.api.kinds import pod_name
from mooring.kit.clock import in_seconds
from mooring.kit.words import alike_names, count
from mooring.model.quantity import show_percent
from mooring.state.recording.recorder import OBSERVER

SAME, TIED, LOWER = BindingVerdict.SAME, BindingVerdict.TIED, BindingVerdict.LOWER
REJECTED, UNDECIDED = BindingVerdict.REJECTED, BindingVerdict.UNDECIDED
_VERDICTS = [verdict.value for verdict in BindingVerdict]


class VerdictCounts(Form, frozen=True):
    """How many bindings have which verdict."""

    same: Count
    """The node is the only one with the highest score, or the one of several that kube-scheduler's rule for ties says."""
    tied: Count
    """The node is one of several with the highest score."""
    lower: Count
    """Another node has a higher score."""
    rejected: Count
    """A filter rejects the node."""
    undecided: Count
    """A plugin failed, or the node is not in the recording."""


class ProfileForm(Form, frozen=True):
    """The bindings of one profile."""

    profile: str
    """The scheduler name."""
    bindings: Positive
    verdicts: VerdictCounts


class PluginForm(Form, frozen=True):
    """A plugin that explains most of the difference of some bindings."""

    plugin: str
    bindings: Positive
    largest: int
    """The largest difference in its weighted score."""
    sum: int


class AgreementForm(Form, frozen=True):
    """Scores are totals over all plugins after normalising and weights."""

    sources: Sequence[Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["observer", "scheduler"]})]]
    """Who wrote each run of the recording."""
    observed: bool
    """Whether a run comes from `mooring record`."""
    bindings: Count
    """How many bindings were judged."""
    verdicts: VerdictCounts
    may_be_sampled: Count
    """How many of the lower scores percentageOfNodesToScore can explain."""
    profiles: Sequence[ProfileForm]
    plugins: Sequence[PluginForm]
    """The plugins that explain most of a difference in score, the one with the most bindings first."""
    different: Sequence[BindingForm]
    """The bindings that are neither the same nor tied: rejected nodes, then lower scores, the largest difference first, then
    those without a verdict; then tied ones to another node than kube-scheduler's rule determines."""
    other_schedulers: Mapping[str, Positive]
    """Bindings that were not judged, by scheduler name."""
    extenders: Count
    """How many extenders of the configuration were not asked."""
    contradictions: Count
    """How many changes did not fit to the ones before."""
    problems: Sequence[str]
    """A line for each part that could not be read."""
    expected_ties: Count = 0
    """With --tie-break kube-scheduler: how many bindings have tied nodes of which its rule determines one."""
    other_ties: Count = 0
    """How many of these bindings are to another node than the rule says."""


@dataclass(frozen=True, repr=False)
class Agreement(ClusterAnswer):
    """Every binding of a recording with the verdict on it, in the order of the decisions."""

    kind: ClassVar[str] = "Agreement"
    form: ClassVar = AgreementForm
    yes_if: ClassVar = "agrees"
    bindings: Sequence[JudgedBinding] = ()
    other_schedulers: dict[str, int] = field(default_factory=dict)
    """Scheduler names that no profile has -> how many pods they bound."""
    sources: Sequence[str] = ()
    """Who recorded each run: an observer, or a scheduler of Mooring."""
    extender_count: int = 0
    contradictions: int = 0
    problems: Sequence[str] = ()

    def about(self, pod: str) -> "Agreement":
        """The agreement about the pods of one name (`[pod/][namespace/]name`)."""
        pod = pod_name(pod)
        chosen = [each for each in self.bindings if pod in (each.pod, each.pod.rpartition("/")[2])]
        return Agreement(chosen, {}, self.sources, self.extender_count, self.contradictions, self.problems)

    def similar_to(self, pod: str) -> str:
        """Names of bound pods that are like this one, for the end of a message."""
        return alike_names(pod_name(pod), [each.pod for each in self.bindings])

    @cached_property
    def by_verdict(self) -> dict[BindingVerdict, list[JudgedBinding]]:
        """The worst first."""
        ordered = sorted(self.bindings, key=lambda each: (-each.behind, each.at_ns))
        return {verdict: [each for each in ordered if each.verdict is verdict] for verdict in BindingVerdict}

    @property
    def agrees(self) -> bool:
        """Whether every binding is one that Mooring could have made."""
        return all(each.agrees for each in self.bindings)

    # ---- as text

    def summary(self) -> list[str]:
        if not self.bindings:
            return ["The recording has no binding of a scheduler that the configuration names", *self._notes()]
        if len(self.bindings) == 1:
            return [_told(self.bindings[0]), *self._notes()]
        return [self._headline(), *self._meanings(), *self._notes()]

    def _headline(self) -> str:
        found = self.by_verdict
        parts = [
            f"same node for {_share(found[SAME], self.bindings)}",
            f"a tied node for {_share(found[TIED], self.bindings)}",
            f"a lower score for {_share(found[LOWER], self.bindings)}",
            f"a node that a filter rejects for {_share(found[REJECTED], self.bindings)}",
        ]
        if found[UNDECIDED]:
            parts.append(f"no verdict on {_share(found[UNDECIDED], self.bindings)}")
        return f"{count(len(self.bindings), 'binding')}: {', '.join(parts)}"

    def _meanings(self) -> list[str]:
        found, lines = self.by_verdict, []
        if found[TIED]:
            tied, feasible = _median(e.tied_count for e in found[TIED]), _median(e.feasible_count for e in found[TIED])
            lines.append(
                f"Tied nodes share the highest score with others (the median is {tied} of {feasible} nodes that fit): "
                "which of them kube-scheduler takes depends on the order in which its goroutines find them, so these agree "
                "as well as they can"
            )
        expected, others = self._expected_ties(), self._other_ties()
        if expected:
            lines.append(
                f"kube-scheduler's rule for ties determines the node of {count(len(expected), 'binding')}: "
                f"the recorded one for {len(expected) - len(others)}, another one for {len(others)}"
            )
        lower, sampled = len(found[LOWER]), sum(each.may_be_sampled for each in found[LOWER])
        if lower:
            lines.append(
                f"Of the lower scores, {sampled} may come from percentageOfNodesToScore (kube-scheduler stops after some "
                f"nodes that fit, and may not have seen the better ones), {lower - sampled} cannot"
            )
        return lines

    def _expected_ties(self) -> list[JudgedBinding]:
        return [each for each in self.bindings if each.expected]

    def _other_ties(self) -> list[JudgedBinding]:
        return [each for each in self.bindings if each.is_other_tie]

    def _notes(self) -> list[str]:
        lines = [
            f"{count(number, 'binding')} of {name}: not judged, because no profile has this scheduler name"
            for name, number in sorted(self.other_schedulers.items())
        ]
        if self.extender_count:
            lines.append(
                f"{count(self.extender_count, 'extender')} of the configuration: not asked, so verdicts lack its say"
            )
        if self.contradictions:
            lines.append(f"{count(self.contradictions, 'change')} did not fit to the ones before: events are missing")
        return lines

    def tables(self) -> list[AnswerTable]:
        found = self.by_verdict
        tables = [
            AnswerTable("By profile", ("profile", "bindings", *_VERDICTS), self._profile_rows()),
            AnswerTable("What makes the difference", ("plugin", "bindings", "largest", "mean"), self._plugins()),
            AnswerTable(
                "Rejected by a filter",
                ("pod", "node", "plugin", "reason", "best", "at"),
                [(e.pod, e.node, e.plugin or "-", e.message, e.best or "-", _at(e)) for e in found[REJECTED]],
            ),
            AnswerTable(
                "Lower scores",
                (
                    "pod",
                    "node",
                    "score",
                    "best",
                    "its score",
                    "behind",
                    "plugin",
                    "by",
                    "better nodes",
                    "may be sampled",
                ),
                [_lower_row(each) for each in found[LOWER]],
            ),
            self._tie_table(),
            AnswerTable(
                "No verdict", ("pod", "node", "reason"), [(e.pod, e.node, e.message) for e in found[UNDECIDED]]
            ),
        ]
        if len(self.bindings) == 1:
            (only,) = self.bindings
            return [
                AnswerTable(
                    "Scores (after weights)", ("plugin", "bound node", "best node"), [*map(tuple, only.differences)]
                )
            ]
        heads = ("at", "pod", "node", "verdict", "tied", "feasible", "score", "best")
        return [*tables, AnswerTable("Bindings", heads, [_row(each) for each in self.bindings], is_detail=True)]

    def _tie_table(self) -> AnswerTable:
        rows = [(e.pod, e.node, e.expected, e.tied_count, _at(e)) for e in self._other_ties()]
        title = "Other tied nodes than kube-scheduler's rule says"
        return AnswerTable(title, ("pod", "node", "expected", "tied", "at"), rows)

    def _profiles(self) -> list[tuple[str, int, Sequence[int]]]:
        by_profile: dict[str, list[JudgedBinding]] = {}
        for each in self.bindings:
            by_profile.setdefault(each.profile, []).append(each)
        return [(name, len(found), _verdict_counts(found)) for name, found in by_profile.items()]

    def _profile_rows(self) -> list[tuple[object, ...]]:
        return [(name, number, *counts) for name, number, counts in self._profiles()]

    def _plugins(self) -> list[tuple[object, ...]]:
        return [
            (name, len(found), max(found), f"{sum(found) / len(found):.1f}")
            for name, found in self._by_plugin().items()
        ]

    def _by_plugin(self) -> dict[str, list[int]]:
        """By plugin that explains most of a difference: how much of it; the plugin with the most bindings first."""
        found: dict[str, list[int]] = {}
        for each in self.by_verdict[LOWER]:
            found.setdefault(each.plugin, []).append(each.plugin_behind)
        return dict(sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0])))

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        plugins = ((name, len(by), max(by), sum(by) / len(by), sum(by)) for name, by in self._by_plugin().items())
        columns: Columns = {"plugin": str, "bindings": int, "largest": int, "mean": float, "sum": int}
        profiles: Columns = {"profile": str, "bindings": int, **dict.fromkeys(_VERDICTS, int)}
        return {
            "bindings": binding_table(self.bindings),
            "profiles": data_table(profiles, self._profile_rows()),
            "plugins": data_table(columns, plugins),
        }

    def published(self) -> AgreementForm:
        found, by_plugin = self.by_verdict, self._by_plugin()
        different = [each for verdict in (REJECTED, LOWER, UNDECIDED) for each in found[verdict]] + self._other_ties()
        return AgreementForm(
            self.sources,
            OBSERVER in self.sources,
            len(self.bindings),
            VerdictCounts(*map(len, found.values())),
            sum(each.may_be_sampled for each in found[LOWER]),
            [ProfileForm(name, number, VerdictCounts(*counts)) for name, number, counts in self._profiles()],
            [PluginForm(name, len(by), max(by), sum(by)) for name, by in by_plugin.items()],
            [each.published() for each in different],
            self.other_schedulers,
            self.extender_count,
            self.contradictions,
            self.problems,
            len(self._expected_ties()),
            len(self._other_ties()),
        )


def _verdict_counts(found: Sequence[JudgedBinding]) -> list[int]:
    return [sum(each.verdict is verdict for each in found) for verdict in BindingVerdict]


def _median(numbers: Iterable[int]) -> int:
    return median_low([*numbers])


def _share(found: Sequence[JudgedBinding], all_of: Sequence[JudgedBinding]) -> str:
    return f"{len(found)} ({show_percent(len(found) / len(all_of))})"


def _at(each: JudgedBinding) -> str:
    return in_seconds(each.at_ns)


def _row(each: JudgedBinding) -> tuple[object, ...]:
    return (
        *(_at(each), each.pod, each.node, each.verdict.value),
        *(each.tied_count, each.feasible_count, each.score, each.best or "-"),
    )


def _lower_row(each: JudgedBinding) -> tuple[object, ...]:
    return (
        *(each.pod, each.node, each.score, each.best, each.best_score, each.behind),
        *(each.plugin, each.plugin_behind, each.better_count, "yes" if each.may_be_sampled else "no"),
    )


def _told(each: JudgedBinding) -> str:
    """One binding in a sentence."""
    where = f"{each.pod} was bound to {each.node} at {_at(each)}"
    match each.verdict:
        case BindingVerdict.SAME:
            return f"{where}: Mooring chooses the same of {count(each.feasible_count, 'node')} that fit"
        case BindingVerdict.TIED:
            rule = f"; kube-scheduler's rule for ties says {each.expected}" if each.expected else ""
            return f"{where}: one of {count(each.tied_count, 'tied node')}, with the highest score, {each.score}{rule}"
        case BindingVerdict.LOWER:
            return (
                f"{where}, with a score of {each.score}; {each.best} has {each.best_score}, and "
                f"{count(each.better_count, 'node')} of {each.feasible_count} that fit are better"
            )
        case BindingVerdict.REJECTED:
            return f"{where}, which {each.plugin or 'Mooring'} rejects: {each.message}"
        case _:
            return f"{where}; there is no verdict: {each.message}"
