"""Plugins at points that read what an earlier point of theirs writes, in profiles that disable the earlier point.

Upstream's plugins then find nothing in the cycle state, and fail for every pod. Here many plugins write no state, because the
shape of a pod has it. So a profile has an `Unprepared` there instead, which fails with upstream's words. It costs nothing in
other profiles.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Plugin,
    PreBindPlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.contract.status import PluginError, Rejection


class Unprepared(FilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Stands for a plugin at one of these points, and fails there."""

    def __init__(self, plugin: Plugin, error: str) -> None:
        self.__dict__["name"] = plugin.name
        self._plugin = plugin
        self._error = error

    def _fail(self) -> NoReturn:
        raise PluginError(self._error)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        assert isinstance(self._plugin, FilterPlugin)
        codes = self._plugin.filter_before_state(context, rows)
        if codes is None or not codes.all():
            self._fail()
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        assert isinstance(self._plugin, FilterPlugin)
        return self._plugin.rejection(context, code)

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        self._fail()

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        self._fail()

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        """Nothing was reserved."""

    def pre_bind(self, context: SchedulingContext, node_name: str) -> None:
        self._fail()


def with_unprepared(points: Mapping[str, Sequence[Plugin]]) -> dict[str, tuple[Plugin, ...]]:
    """The plugins of each point, with an `Unprepared` for each of those that cannot do their work there."""
    names = {point: {plugin.name for plugin in plugins} for point, plugins in points.items()}
    return {point: tuple(_at(point, plugin, names) for plugin in plugins) for point, plugins in points.items()}


def _at(point: str, plugin: Plugin, names: Mapping[str, Collection[str]]) -> Plugin:
    for need in plugin.needs:
        if need.point == point and plugin.name not in names.get(need.earlier, ()):
            return Unprepared(plugin, need.error)
    return plugin
