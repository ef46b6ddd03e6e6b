"""Questions of a dashboard, each answered by a process of its own: the scheduler goes on meanwhile.

One process runs at a time, with a low priority and limits of time and memory; a few questions wait behind it. If the client
of a question goes away, its process is ended.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import IO

import msgspec

from mooring.dashboard.interfaces import DashboardSource, ExplainPod, Question, Refused, RejectionsOnNode
from mooring.dashboard.questions.asked_cluster import AskedCluster, AskedScheduler, FetchObjects, MoreObjects
from mooring.dashboard.questions.question_process import END, OK
from mooring.dashboard.slices import SHARE, SLICE_S
from mooring.inputs.input_errors import problem_line
from mooring.kit.process import ONE_BLAS_THREAD
from mooring.kit.tasks import settle
from mooring.queue.entry import ReportFault

# ---- A process with pipes that the event loop reads and writes, and that starts without a copy of this one.
#
# Hot: uvloop starts a process by `fork`, which copies the page tables: 30 ms for a scheduler that has 1.5 GiB.
# `subprocess` uses `vfork`: 0.6 ms whatever the size.


CHUNK = 1 << 16
_POLL_S = 0.005
"""How often the end of a process is looked for, after it has closed its pipes or was killed."""


class ChildProcess:
    """To be ended by `end`, whatever happens."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, bufsize=0, start_new_session=True
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        for each in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(each.fileno(), False)

    async def write(self, data: bytes) -> None:
        """Write all of it to standard input. Raises BrokenPipeError if the process does not read any more."""
        pipe, rest = self.stdin.fileno(), memoryview(data)
        while rest:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(pipe, loop.add_writer, loop.remove_writer)

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    async def wait(self) -> int:
        """Wait for the end of the process. Returns its exit status."""
        while (status := self.status) is None:
            await asyncio.sleep(_POLL_S)
        return status

    async def kill(self) -> None:
        """Kill the process if it runs, and wait until it is gone. Reads of its pipes find their end."""
        if self.status is None:
            self._process.kill()
        await self.wait()

    async def end(self) -> None:
        """Kill the process, and close its pipes, which no task may read any more."""
        await self.kill()
        for each in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                each.close()


async def _read(pipe: IO[bytes]) -> bytes:
    """The next bytes of a pipe; empty at its end."""
    while True:
        try:
            return os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _ready(pipe.fileno(), loop.add_reader, loop.remove_reader)


async def _ready(pipe: int, watch: Callable[..., None], forget: Callable[[int], bool]) -> None:
    """Wait until a pipe can be used."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(pipe, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        forget(pipe)


MODULE = "mooring.dashboard.questions.question_process"
MIB = 1 << 20
_TOLD = 4096
"""Bytes of standard error that are reported."""
_RETRY_S = 5


def _memory_bytes() -> int:
    """4 GiB, which is enough for 300,000 pods; on a small machine half of its memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(min(4096 * MIB, physical // 2), 512 * MIB)


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """The limits of questions."""

    waiting: int = 4
    """How many questions wait behind the one that is being answered."""
    seconds: float = 60
    """For one question, from its turn on."""
    processor_s: int = 60
    memory_bytes: int = 0
    """Address space of the process; 0: as much as the machine allows."""
    input_bytes: int = 2048 * MIB
    answer_bytes: int = 32 * MIB
    kept_s: float = 3
    """How long an answer is kept for others who ask the same of the same state."""


class ChildQuestions:
    """Answers questions about the scheduler of a source as it is when their turn comes."""

    def __init__(
        self,
        source: DashboardSource,
        asked: Callable[[], AskedScheduler],
        more: MoreObjects = lambda question: (),
        *,
        fetch: FetchObjects | None = None,
        version: Callable[[], Hashable] | None = None,
        limits: QuestionLimits | None = None,
        report: ReportFault = lambda text, fault: None,
    ) -> None:
        """`asked` is called for each question: a time line may come to a run with another configuration.

        `fetch` reads objects before the moment of the question; `more` has them at that moment. `version` changes with the
        state of the cluster. `report` takes what should not have happened.
        """
        self._source, self._asked, self._more, self._fetch = source, asked, more, fetch
        self._limits = limits or QuestionLimits()
        self._memory_bytes = self._limits.memory_bytes or _memory_bytes()
        self._version = version or self._scheduler_version
        self._report = report
        self._turn = asyncio.Lock()
        self._present = 0
        """Questions that are being answered or wait."""
        self._kept: dict[str, tuple[float, Hashable, bytes]] = {}
        self._children: set[ChildProcess] = set()

    def _scheduler_version(self) -> Hashable:
        scheduler = self._source.scheduler
        return id(scheduler), scheduler.attempts, scheduler.cluster.nodes.touches.end, len(scheduler.pods)

    async def ask(self, question: Question) -> bytes:
        """Answer a question in its own process, or with an answer that was kept. Raises Refused (429) if too many questions
        wait."""
        self._check(question)
        if self._present > self._limits.waiting:
            raise Refused(429, f"{self._present - 1} other questions wait for their answers; ask again later", _RETRY_S)
        self._present += 1
        try:
            async with self._turn:
                return self._known(question) or await self._answer(question)
        finally:
            self._present -= 1

    async def close(self) -> None:
        for child in [*self._children]:
            await child.kill()

    def _check(self, question: Question) -> None:
        """A question about an object that does not exist needs no process. Raises Refused (404).

        Similar names would take the scheduler 20 ms to find.
        """
        scheduler = self._source.scheduler
        if isinstance(question, ExplainPod):
            key = f"{question.namespace}/{question.name}"
            if key not in scheduler.pods:
                raise Refused(404, problem_line(f"there is no pod {key}"))
        elif isinstance(question, RejectionsOnNode):
            table = scheduler.cluster.nodes
            row = table.row_book.get(question.node)
            if row is None or not table.alive[row]:
                raise Refused(404, problem_line(f"there is no node {question.node}"))

    # ---- answers that are kept

    def _known(self, question: Question) -> bytes | None:
        now_s = monotonic()
        self._kept = {asked: kept for asked, kept in self._kept.items() if kept[0] > now_s}
        kept = self._kept.get(repr(question))
        return kept[2] if kept is not None and kept[1] == self._version() else None

    async def _answer(self, question: Question) -> bytes:
        """Copy the references to the cluster at one moment, let a process answer, and keep the answer for `kept_s` seconds.
        Raises Refused (503) after the time limit."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                fetched = await self._fetch(question) if self._fetch is not None else []
                version = self._version()
                cluster = AskedCluster.of(self._source.scheduler, self._asked(), question, self._more)
                cluster.more = [*fetched, *cluster.more] if fetched else cluster.more
                answer = await self._run(cluster)
        except TimeoutError:
            raise Refused(503, f"the answer takes longer than {self._limits.seconds:g} seconds; {_ELSEWHERE}") from None
        self._kept[repr(question)] = (monotonic() + self._limits.kept_s, version, answer)
        return answer

    # ---- the process

    async def _run(self, cluster: AskedCluster) -> bytes:
        """Start a process, send it the cluster line by line, and read its answer and its messages at the same time. The
        process is ended in any case."""
        child = self._start()
        self._children.add(child)
        reads_answer = asyncio.create_task(_read_answer(child, self._limits.answer_bytes))
        reads_end = asyncio.create_task(_read_end(child))
        try:
            await self._feed(child, cluster.lines())
            answer, told = await asyncio.gather(reads_answer, reads_end)
            status = await child.wait()
        finally:
            # Both, also where one has failed: a read that goes on would wait on the pipe of the next process, whose number
            # may be the same.
            reads_answer.cancel()
            reads_end.cancel()
            await settle([reads_answer, reads_end])
            await asyncio.shield(child.end())
            self._children.discard(child)
        return self._result(status, answer, told)

    def _start(self) -> ChildProcess:
        """Start this interpreter again with the same modules, and none from the present directory."""
        arguments = (sys.executable, "-P", "-m", MODULE, str(self._memory_bytes), str(self._limits.processor_s))
        path = os.pathsep.join(filter(None, sys.path))
        return ChildProcess(arguments, {**os.environ, "PYTHONPATH": path, **ONE_BLAS_THREAD})

    async def _feed(self, child: ChildProcess, lines: Iterable[bytes]) -> None:
        """Encode and send in slices. A process that has ended takes no more: its status says why."""
        sent, held, began_s = 0, bytearray(), thread_time()
        with suppress(BrokenPipeError):
            for line in lines:
                held += line
                taken_s = thread_time() - began_s
                if taken_s >= SLICE_S or len(held) >= CHUNK:
                    sent += len(held)
                    self._check_size(sent)
                    await child.write(bytes(held))
                    held.clear()
                if taken_s >= SLICE_S:
                    await asyncio.sleep(taken_s * (1 / SHARE - 1))
                    began_s = thread_time()
            await child.write(bytes(held) + END)
            child.stdin.close()

    def _check_size(self, sent: int) -> None:
        if sent > self._limits.input_bytes:
            raise Refused(503, f"the cluster has more than {self._limits.input_bytes // MIB:,} MiB; {_ELSEWHERE}")

    def _result(self, status: int, answer: bytes, told: str) -> bytes:
        """The answer, or why there is none. Raises Refused."""
        code, _, body = answer.partition(b"\n")
        if status == 0 and code == b"%d" % OK:
            return body
        if status == 0 and code.isdigit():
            if told:
                self._report(f"a question of the dashboard failed: {told}", None)
            raise Refused(int(code), msgspec.json.decode(body)["message"])
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            limit = f"takes more than {self._limits.processor_s} seconds of processor time, or too much memory"
            raise Refused(503, f"the answer {limit}; {_ELSEWHERE}")
        self._report(f"a process that answers questions ended with {status}: {told}", None)
        raise Refused(503, f"the process that answers questions ended with status {status}; the log says why")


_ELSEWHERE = "ask a command such as `mooring explain` or `mooring what-if` instead, which has no limits"


async def _read_answer(child: ChildProcess, limit: int) -> bytes:
    """All that the process writes. Raises Refused at the limit."""
    held = bytearray()
    while chunk := await _read(child.stdout):
        held += chunk
        if len(held) > limit:
            raise Refused(503, f"the answer has more than {limit // MIB:,} MiB; {_ELSEWHERE}")
    return bytes(held)


async def _read_end(child: ChildProcess) -> str:
    """The last of what the process says on standard error."""
    held = b""
    while chunk := await _read(child.stderr):
        held = (held + chunk)[-_TOLD:]
    return held.decode(errors="replace").strip()
