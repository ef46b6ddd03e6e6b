"""Carries out the calls of a scheduler to its extenders, each as a task, and reports the replies."""

import asyncio
import logging
from collections.abc import Callable

from mooring.framework.intents import Call, CallFault, CallReply
from mooring.kit.fence import NO_FENCE, Fence
from mooring.kit.tasks import settle
from mooring.live.extenders.bodies import Whole, encoded
from mooring.live.extenders.client import ExtenderClient
from mooring.scheduler.inputs import CallAnswered
from mooring.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

NO_LOOP = "extenders are asked only while an event loop runs"
_BOUND = b"{}"


class ExtenderCaller:
    """For a driver: `begin` each Call; `then` is called when a reply was reported and there may be intents."""

    def __init__(
        self,
        scheduler: Scheduler,
        whole: Whole,
        then: Callable[[], None],
        *,
        is_dry_run: bool = False,
        fence: Fence = NO_FENCE,
    ) -> None:
        """Raises ConfigError for certificates that cannot be used."""
        self._scheduler = scheduler
        self._client = ExtenderClient(scheduler.extenders, fence=fence)
        self._whole = whole
        self._then = then
        self._is_dry_run = is_dry_run
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: Call) -> None:
        """Ask, and report later; at once where nobody can be asked."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._report(call, CallFault(f'Post "{call.url}": {NO_LOOP}'))
            return
        task = loop.create_task(self._ask(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Report nothing any more: whoever waits for a reply waits for ever."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.stop()
        await settle(self._tasks)
        await self._client.close()

    async def _ask(self, call: Call) -> None:
        reply = await self._reply(call)
        try:
            self._report(call, reply)
        except Exception as bug:  # nobody looks at what a task raises
            log.error("the reply to %s could not be processed", call.url, exc_info=bug)

    async def _reply(self, call: Call) -> CallReply:
        if call.binds and self._is_dry_run:
            return _BOUND
        try:
            return await self._client.ask(call, encoded(call, self._whole))
        except Exception as bug:  # or else the scheduler would wait for ever
            log.error("a call to %s failed unexpectedly", call.url, exc_info=bug)
            return CallFault(f'Post "{call.url}": {bug!r}')

    def _report(self, call: Call, reply: CallReply) -> None:
        self._scheduler.handle(CallAnswered(call.token, reply))
        self._then()
