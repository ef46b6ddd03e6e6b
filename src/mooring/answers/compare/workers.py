"""Runs on the cores of this machine: in this process, or in a process for each core.

Each worker process gets the inputs once, when it starts, and then a plan for each run. Which worker makes a run, and when,
changes nothing in its result.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import connection
from types import ModuleType
from typing import Any

from mooring.answers.compare.compared_run import RunInputs, RunResult, run_once
from mooring.answers.compare.run_plan import RunPlan
from mooring.framework.config import ConfigError
from mooring.inputs.input_errors import InputError
from mooring.kit.version import VERSION

RunProgress = Callable[[float, int], None]
"""Called with how many runs are done, in parts of runs too, and of how many."""

Shares = MutableSequence[float]
"""By place of a plan: how much of its run is done. Memory that worker processes share."""

_POLL_S = 0.5
"""How often progress is shown while no run ends."""
WORTH_A_PROCESS = 5_000
"""How many pods in all are worth worker processes: these need half a second each to start, which is that many attempts."""


class RunFault(InputError):
    """A run that could not be made; the text says which and why."""


def run_here(inputs: RunInputs, plans: Sequence[RunPlan], on_progress: RunProgress) -> Iterator[tuple[int, RunResult]]:
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
    except InputError as error:
        raise RunFault("\n".join(str(problem) for problem in error.problems)) from None


def run_in_processes(
    inputs: RunInputs, plans: Sequence[RunPlan], on_progress: RunProgress, processes: int
) -> Iterator[tuple[int, RunResult]]:
    """Run plans in worker processes. Yields the place of each plan, with its result, as they are done."""
    count = min(processes, len(plans), os.cpu_count() or 1)
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload([__name__])  # workers share what is imported: 0.7 s of CPU and 43 MB
    shares: Shares = context.Array("d", len(plans), lock=False)
    executor = ProcessPoolExecutor(count, context, _begin, (inputs, shares))
    try:
        with _without_main():  # submitting starts the processes
            places = {executor.submit(_run, i, plan): i for i, plan in enumerate(plans)}
        yield from _as_done(places, lambda: on_progress(sum(shares), len(plans)))
    except BrokenProcessPool as error:
        told = "a worker process was killed, perhaps for want of memory: use fewer processes"
        raise RunFault(told) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """A context in which new processes do not import the script that runs: they need nothing of it, and a script without
    `if __name__ == "__main__"` would start its comparison again in each of them."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _as_done(places: dict[Future[RunResult], int], tell: Callable[[], None]) -> Iterator[tuple[int, RunResult]]:
    waiting = set(places)
    while waiting:
        done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
        tell()
        for future in sorted(done, key=places.__getitem__):
            yield places.pop(future), future.result()


# ---- in a worker process

_own: list[tuple[RunInputs, Shares]] = []
"""The inputs of this worker process, and where it notes how far its runs are."""


def _begin(inputs: RunInputs, shares: Shares) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends workers without a traceback
    sys.stdout = sys.stderr  # plugins may print; standard output is for the answer
    _own[:] = [(inputs, shares)]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next plan for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run(place: int, plan: RunPlan) -> RunResult:
    [(inputs, shares)] = _own

    def tell(done: int, total: int) -> None:
        shares[place] = min(done / total, 1.0) if total else 1.0

    result = checked_run(inputs, plan, tell)
    shares[place] = 1.0
    return result


# ---- Runs on a Dask cluster. Its workers need Mooring in the same version, and the plugin files under the same
# paths.


CONNECT_S = 10
"""How long the scheduler of Dask has to answer."""


def run_on_dask(
    inputs: RunInputs, plans: Sequence[RunPlan], on_progress: RunProgress, address: str, digest: str
) -> Iterator[tuple[int, RunResult]]:
    """Run plans on the cluster with this address. Yields the place of each plan, with its result, as they are done.

    `digest` is that of the inputs: a worker reads them once. Raises RunFault.
    """
    distributed = _distributed()
    with _client(distributed, address) as client:
        version = VERSION
        [sent] = client.scatter([pickle.dumps(inputs)], broadcast=True, hash=False)
        futures = {client.submit(_run_sent, sent, digest, version, plan, pure=False): i for i, plan in enumerate(plans)}
        for done, future in enumerate(distributed.as_completed([*futures], loop=client.loop), 1):
            on_progress(done, len(plans))
            yield futures[future], _result(future)


def _result(future: Any) -> RunResult:
    """Workers may lack Mooring, a plugin file, or memory: whatever they raise is told."""
    try:
        result: RunResult = future.result()
    except RunFault:
        raise
    except Exception as error:
        raise RunFault(f"a worker of Dask failed: {type(error).__name__}: {error}") from error
    return result


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise RunFault("Dask is not installed: pip install 'mooring[dask]'") from error


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise RunFault(f"no Dask scheduler answers at {address}: {error}") from error


# ---- in a worker of Dask

_lock = threading.Lock()
"""A worker may have several threads, and runs share the objects: one run at a time."""
_read_inputs: dict[str, RunInputs] = {}
"""The inputs that this process read last, by digest."""


def _run_sent(sent: bytes, digest: str, version: str, plan: RunPlan) -> RunResult:
    if version != VERSION:
        raise RunFault(f"a worker of Dask has Mooring {VERSION}, and this is {version}: install the same version")
    with _lock:
        if digest not in _read_inputs:
            _read_inputs.clear()
            _read_inputs[digest] = pickle.loads(sent)
        return checked_run(_read_inputs[digest], plan)
