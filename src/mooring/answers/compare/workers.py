"""Runs on the cores of this machine: in this process, or in a process for each core.

Each worker process gets the inputs once, when it starts, and then a plan for each run. Which worker makes a run, and when,
changes nothing in its result.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection

from mooring.answers.compare.run import RunInputs, RunResult, run_once
from mooring.answers.compare.run_plan import RunPlan
from mooring.framework.config import ConfigError
from mooring.sim.input_errors import UnusableInput

Progress = Callable[[float, int], None]
"""Called with how many runs are done, in parts of runs too, and of how many."""

_POLL_S = 0.5
"""How often progress is shown while no run ends."""
WORTH_A_PROCESS = 5_000
"""How many pods in all are worth worker processes: these need half a second each to start, which is that many attempts."""


class RunFault(ValueError):
    """A run that could not be made; the text says which and why."""


def run_here(inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Progress) -> Iterator[tuple[int, RunResult]]:
    """Run one plan after the other. Yields the place of each plan, with its result."""
    for i, plan in enumerate(plans):

        def tell(done: int, total: int, before: int = i) -> None:
            on_progress(before + (min(done / total, 1) if total else 1), len(plans))

        yield i, checked_run(inputs, plan, tell)


def checked_run(inputs: RunInputs, plan: RunPlan, on_progress: Callable[[int, int], None] | None = None) -> RunResult:
    """A run whose errors can be sent from one process to another. Raises RunFault."""
    try:
        return run_once(inputs, plan, on_progress)
    except ConfigError as error:
        raise RunFault("\n".join(f"{plan.name}: {problem}" for problem in error.problems)) from None
    except UnusableInput as error:
        raise RunFault("\n".join(str(problem) for problem in error.problems)) from None


def run_in_processes(
    inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Progress, processes: int
) -> Iterator[tuple[int, RunResult]]:
    """Run plans in worker processes. Yields the place of each plan, with its result, as they are done."""
    count = min(processes, len(plans), os.cpu_count() or 1)
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    executor = ProcessPoolExecutor(count, context, _begin, (inputs,))
    try:
        places = {executor.submit(_run, plan): i for i, plan in enumerate(plans)}
        yield from _as_done(places, on_progress)
    except BrokenProcessPool as error:
        told = "a worker process was killed, perhaps for want of memory: use fewer processes"
        raise RunFault(told) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _as_done(places: dict[Future[RunResult], int], on_progress: Progress) -> Iterator[tuple[int, RunResult]]:
    waiting, total = set(places), len(places)
    while waiting:
        done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
        on_progress(total - len(waiting), total)
        for future in sorted(done, key=places.__getitem__):
            yield places.pop(future), future.result()


# ---- in a worker process

_own_inputs: list[RunInputs] = []
"""The inputs of this worker process."""


def _begin(inputs: RunInputs) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends workers without a traceback
    sys.stdout = sys.stderr  # plugins may print; standard output is for the answer
    _own_inputs[:] = [inputs]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next plan for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run(plan: RunPlan) -> RunResult:
    return checked_run(_own_inputs[0], plan)
