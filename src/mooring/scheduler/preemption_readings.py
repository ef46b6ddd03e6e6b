"""How often preemption was tried: the plugins count, metrics read."""

from collections.abc import Iterable

from mooring.framework.runner import Runner
from mooring.kit.metrics import Registry
from mooring.plugins.preemption.default_preemption import DefaultPreemption


def read_preemption(runners: Iterable[Runner], registry: Registry) -> None:
    """Have the attempts of these profiles read when someone looks."""
    every = (plugin for runner in runners for plugin in runner.profile.plugins.values())
    plugins = [plugin for plugin in every if isinstance(plugin, DefaultPreemption)]

    def forget() -> None:
        for plugin in plugins:
            plugin.runs = 0

    registry.counter("scheduler_preemption_attempts_total").read_from(
        lambda: [((), sum(plugin.runs for plugin in plugins))], forget
    )
