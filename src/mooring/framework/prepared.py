"""A profile made ready for attempts: its plugins with what their answers depend on, which is checked once, at the start."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from mooring.framework.asking import ask_filter, ask_score
from mooring.framework.kept_columns import KeptQuestion
from mooring.framework.memo import PluginPlan
from mooring.framework.plugin_caller import PluginCaller
from mooring.framework.points import Plugin, PreFilterPlugin, PreScorePlugin, Reads
from mooring.framework.profiles import Profile
from mooring.framework.ranking import PASSED
from mooring.model.shape import PodPart


@dataclass(slots=True)
class SearchCursor:
    """Where the next search that looks at a part of the nodes starts; all profiles of a scheduler share one."""

    start: int = 0


class PreparedProfile:
    """All that attempts read of a profile. Nothing here changes from one attempt to the next but the cursor."""

    def __init__(
        self, profile: Profile, caller: PluginCaller | None = None, cursor: SearchCursor | None = None
    ) -> None:
        self.profile = profile
        self.caller = caller or PluginCaller()
        self.cursor = cursor or SearchCursor()
        self.filters = profile.filters
        self.scores = profile.scores
        if len(self.filters) >= PASSED:
            raise ValueError(f"a profile can have at most {PASSED - 1} filter plugins, {len(self.filters)} are enabled")
        self.pre_filter_plan = _plan(profile.pre_filters, "pre_filter")
        self.pre_score_plan = _plan(profile.pre_scores, "pre_score")
        self.filter_reads = [_reads_of(plugin, "filter", "pre_filter") for plugin in self.filters]
        self.score_reads = [_reads_of(plugin, "score", "pre_score") for plugin in self.scores]
        self.kept_filters = [
            KeptQuestion(
                index, plugin, "Filter", reads, _part_of(plugin, "filter", "pre_filter"), partial(ask_filter, plugin)
            )
            for index, (plugin, reads) in enumerate(zip(self.filters, self.filter_reads, strict=True))
            if reads is not Reads.CLUSTER
        ]
        """The filters whose answers are kept."""
        self.kept_scores = [
            KeptQuestion(
                index, plugin, "Score", reads, _part_of(plugin, "score", "pre_score"), partial(ask_score, plugin)
            )
            for index, (plugin, reads) in enumerate(zip(self.scores, self.score_reads, strict=True))
            if reads is not Reads.CLUSTER
        ]
        self.reads_pods = any(kept.reads is Reads.ROW for kept in (*self.kept_filters, *self.kept_scores))
        """Whether kept answers depend on the pods themselves that are on nodes, and not only on what is counted of them."""
        self.asked_filters = [
            (index, plugin) for index, plugin in enumerate(self.filters) if self.filter_reads[index] is Reads.CLUSTER
        ]
        """The filters whose answers are not kept, with their place in the order."""
        self.weights = [profile.weights[plugin.name] for plugin in self.scores]
        self.summed = {
            index: self.weights[index]
            for index, plugin in enumerate(self.scores)
            if self.score_reads[index] is not Reads.CLUSTER and not plugin.normalizes()
        }
        """Score plugins whose kept answers need nothing but adding up, with their weight."""
        self.asked_scores = [(index, plugin) for index, plugin in enumerate(self.scores) if index not in self.summed]
        """The score plugins whose part of the total is worked out in each attempt, with their place in the order."""


def _plan(plugins: Iterable[PreFilterPlugin | PreScorePlugin], method: str) -> PluginPlan:
    return PluginPlan(frozenset(), tuple((plugin, _fixed_part(plugin, method)) for plugin in plugins))


def _fixed_part(plugin: Plugin, method: str) -> PodPart | None:
    """The part of the shape that alone decides an answer; None: more than the shape does."""
    part: PodPart = getattr(getattr(plugin, method), "part", PodPart.WHOLE)
    return part if _declared(plugin, method) is Reads.SHAPE else None


def _declared(plugin: Plugin, method: str) -> Reads:
    return getattr(getattr(plugin, method, None), "reads", Reads.CLUSTER)


def _part_of(plugin: Plugin, method: str, before: str) -> PodPart:
    """The part of the shape that a kept filter or score goes by; the whole if the point before it goes by another one."""
    parts = {
        getattr(getattr(plugin, each), "part", PodPart.WHOLE) for each in (method, before) if hasattr(plugin, each)
    }
    return parts.pop() if len(parts) == 1 else PodPart.WHOLE


def _reads_of(plugin: Plugin, method: str, before: str) -> Reads:
    """What a filter or score reads. It can only be kept if the point before it always says the same for a shape."""
    what = _declared(plugin, method)
    if what is not Reads.CLUSTER and hasattr(plugin, before) and _declared(plugin, before) is not Reads.SHAPE:
        raise ValueError(f"{method} of plugin {plugin.name} reads {what.name}, so its {before} must read only SHAPE")
    return what
