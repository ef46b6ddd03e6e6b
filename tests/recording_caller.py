"""A caller of plugins that notes what goes through it."""

from collections.abc import Callable, Collection
from typing import Any, cast

from mooring.framework.contract.plugin_caller import M, PluginCaller, Wrap, unwrapped

NOW_NS = 5


class RecordingCaller(PluginCaller):
    """Notes points that end and single calls. `samples` says which attempts are noted call by call; `plugins` of whom."""

    measures = True

    def __init__(self, samples: Callable[[int], bool] = lambda seed: True, plugins: Collection[str] = ()) -> None:
        self.seen: list[Any] = []
        self._samples = samples
        self._plugins = plugins

    def ends(self) -> list[tuple[str, str]]:
        """The points that ended, each with its status."""
        return [seen[:2] for seen in self.seen if isinstance(seen, tuple) and len(seen) == 3]

    def wrap_for(self, seed: int) -> Wrap:
        return self.wrap if self._samples(seed) else unwrapped

    def wrap(self, point: str, plugin: str, method: M) -> M:
        def call(*args: object) -> Any:
            if not self._plugins or plugin in self._plugins:
                self.seen.append(f"{point} {plugin}")
            return method(*args)

        return cast(M, call)

    def began(self) -> int:
        return NOW_NS

    def ended(self, point: str, status: str, began_ns: int) -> int:
        self.seen.append((point, status, began_ns))
        return NOW_NS

    def hints_known(self, plugin: str, event: str, outcome: str, count: int) -> None:
        self.seen.append((plugin, event, outcome, count))

    def hinted(self, plugin: str, event: str, outcome: str, began_ns: int) -> None:
        self.seen.append((plugin, event, outcome, began_ns))
