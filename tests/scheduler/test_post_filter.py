"""PostFilter: the first plugin that finds room wins, the reasons of the others are gathered, and none can do harm."""

from types import SimpleNamespace
from typing import Any

import pytest

from mooring.framework.contract.plugin_caller import PluginCaller, unwrapped
from mooring.framework.contract.points import Handle, Nomination, NoRoom, PostFilterPlugin
from mooring.framework.contract.status import PluginError, curable, final
from mooring.scheduler.extender_steps import at_once
from mooring.scheduler.post_filter import PostFilterResult, run_post_filter_plugins


class Answering(PostFilterPlugin):
    """Says what it is told to say, or raises it."""

    name = "Answering"

    def __init__(self, answer: Any) -> None:
        super().__init__(None, Handle())
        self._answer = answer

    def post_filter(self, failure: Any) -> Nomination | NoRoom:
        if isinstance(self._answer, Exception):
            raise self._answer
        assert isinstance(self._answer, Nomination | NoRoom)
        return self._answer


ROOM = Nomination("n1")
ROWS: dict[str, tuple[list[Any], Nomination | None, str, bool]] = {
    "nobody is asked": ([], None, "", False),
    "the first room found is taken": ([NoRoom(curable("no")), ROOM, NoRoom(curable("never asked"))], ROOM, "", False),
    "reasons are gathered in order": ([NoRoom(curable("one")), NoRoom(curable("two"))], None, "one, two", False),
    "one that clears the nomination is enough": (
        [NoRoom(curable("one"), clear_nomination=True), NoRoom(curable("two"))],
        *(None, "one, two", True),
    ),
    "a final answer ends it": ([NoRoom(final("never")), ROOM], None, "never", False),
    "an error that a plugin words itself stands as it is": ([PluginError("not found"), ROOM], None, "not found", False),
    "any other exception names the plugin": (
        [ZeroDivisionError("division by zero"), ROOM],
        *(None, 'running PostFilter plugin "Answering": ZeroDivisionError: division by zero', False),
    ),
}


@pytest.mark.parametrize(("answers", "nomination", "message", "clears"), ROWS.values(), ids=ROWS.keys())
def test_what_comes_of_it(answers: list[Any], nomination: Nomination | None, message: str, clears: bool) -> None:
    plugins = tuple(Answering(answer) for answer in answers)
    runner: Any = SimpleNamespace(profile=SimpleNamespace(post_filters=plugins))
    context = SimpleNamespace(wrap=unwrapped, caller=PluginCaller(), is_resize=False)
    failure: Any = SimpleNamespace(attempt=SimpleNamespace(context=context))
    room: PostFilterResult = at_once(run_post_filter_plugins(runner, failure))
    told = room.message.partition(f" ({__file__}, line ")[0]
    assert (room.nomination, told, room.clear_nomination) == (nomination, message, clears)
    assert room.found_by is (None if nomination is None else plugins[answers.index(nomination)])
