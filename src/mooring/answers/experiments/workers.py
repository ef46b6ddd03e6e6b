"""Makes the runs of an experiment that its results file does not have yet, and returns the results of all.

Runs are made on the cores of this machine, in this process or in a process for each core; or on a Dask cluster. Each
worker process gets the experiment once, when it starts, and then a plan for each run. Which worker makes a run, and
when, changes nothing in its result.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection
from types import ModuleType
from typing import Any, Generic, Protocol, TypedDict, TypeVar

from mooring.answers.experiments.results_file import RowForm, open_results
from mooring.answers.experiments.run_plan import UnusablePlan
from mooring.framework.config import ConfigError
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Source
from mooring.kit.callbacks import Progress
from mooring.kit.version import VERSION
from mooring.kit.words import count
from mooring.state.scheduler_assembly import all_plugins

RunProgress = Callable[[float, int], None]
"""Called with how many runs are done, in parts of runs too, and of how many."""

Shares = MutableSequence[float]
"""By place of a plan: how much of its run is done. Memory that worker processes share."""

_POLL_S = 0.5
"""How often progress is shown while no run ends."""
WORTH_A_PROCESS = 5_000
"""How many pods in all are worth worker processes: these need half a second each to start, which is that many attempts."""


_DIED = "a worker process was killed, perhaps for want of memory: use fewer processes"


class RunFault(InputError):
    """A run that could not be made; the text says which and why."""


class NamedPlan(Protocol):
    """A run of an experiment, as workers see it."""

    @property
    def name(self) -> str:
        """Unique in an experiment."""


P = TypeVar("P", bound=NamedPlan)
R = TypeVar("R")


P_contra = TypeVar("P_contra", bound=NamedPlan, contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Experiment(Protocol[P_contra, R_co]):
    """All that the runs of an experiment have in common. Workers get a copy, so it can be pickled."""

    def run(self, plan: P_contra, on_progress: Progress | None = None, /) -> R_co:
        """Make a run. Raises ConfigError, InputError."""

    def failed(self, plan: P_contra, reason: str, /) -> R_co:
        """The result of a run that could not be made. Raises RunFault where such a run ends the experiment."""


def run_here(experiment: Experiment[P, R], plans: Sequence[P], on_progress: RunProgress) -> Iterator[tuple[int, R]]:
    """Run one plan after the other. Yields the place of each plan, with its result."""
    for i, plan in enumerate(plans):

        def tell(done: int, total: int, before: int = i) -> None:
            on_progress(before + (min(done / total, 1) if total else 1), len(plans))

        yield i, checked_run(experiment, plan, tell)


def checked_run(experiment: Experiment[P, R], plan: P, on_progress: Progress | None = None) -> R:
    """A run whose errors can be sent from one process to another. Raises RunFault where it ends the experiment."""
    try:
        return experiment.run(plan, on_progress)
    except ConfigError as error:
        reason = "\n".join(f"{plan.name}: {problem}" for problem in error.problems)
    except InputError as error:
        reason = "\n".join(str(problem) for problem in error.problems)
    return experiment.failed(plan, reason)


def run_in_processes(
    experiment: Experiment[P, R], plans: Sequence[P], on_progress: RunProgress, processes: int
) -> Iterator[tuple[int, R]]:
    """Run plans in worker processes. Yields the place of each plan, with its result, as they are done.

    If a process dies, nothing says which of the runs under way it made. Each of them is tried once more in a process of its
    own; if that dies as well, the run has failed. The others go on in new processes.
    """
    context = _context(experiment)
    shares: Shares = context.Array("d", len(plans), lock=False)
    pool = _WorkerPool(experiment, plans, shares, context, lambda: on_progress(sum(shares), len(plans)))
    left = [*range(len(plans))]
    while left:
        done: set[int] = set()
        try:
            for place, result in pool.run(left, processes):
                done.add(place)
                yield place, result
        except BrokenProcessPool:
            left = [place for place in left if place not in done]
            begun = [place for place in left if shares[place]] or left[:1]
            for place in begun:
                yield place, pool.run_again(place)
            left = [place for place in left if place not in begun]
        else:
            return


def _context(experiment: Experiment[Any, Any]) -> Any:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload(
        [__name__, type(experiment).__module__]
    )  # workers share what is imported: 0.7 s of CPU and 43 MB
    return context


@dataclass(slots=True)
class _WorkerPool(Generic[P, R]):
    """Worker processes for some of the plans of an experiment."""

    experiment: Experiment[P, R]
    plans: Sequence[P]
    shares: Shares
    context: Any
    tell: Callable[[], None]

    def run(self, places: Sequence[int], processes: int) -> Iterator[tuple[int, R]]:
        """Run the plans of these places. Raises BrokenProcessPool if a process dies."""
        count = min(processes, len(places), os.cpu_count() or 1)
        executor = ProcessPoolExecutor(count, self.context, begin_worker, (self.experiment, self.shares))
        try:
            with without_main():  # submitting starts the processes
                futures = {executor.submit(run_in_worker, place, self.plans[place]): place for place in places}
            yield from as_done(futures, self.tell)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)

    def run_again(self, place: int) -> R:
        """The result of a run whose process may have died because of it."""
        try:
            [(_, result)] = self.run([place], 1)
        except BrokenProcessPool:
            self.shares[place] = 1.0
            return self.experiment.failed(self.plans[place], _DIED)
        return result


@contextmanager
def without_main() -> Iterator[None]:
    """A context in which new processes do not import the script that runs: they need nothing of it, and a script without
    `if __name__ == "__main__"` would start its comparison again in each of them."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def as_done(places: dict[Future[R], int], tell: Callable[[], None]) -> Iterator[tuple[int, R]]:
    waiting = set(places)
    while waiting:
        done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
        tell()
        for future in sorted(done, key=places.__getitem__):
            yield places.pop(future), future.result()


# ---- in a worker process

of_this_worker: list[tuple[Experiment[Any, Any], Shares]] = []
"""The experiment of this worker process, and where it notes how far its runs are."""
_BEGUN = 1e-9
"""The share of a run that has only begun: if its process dies, the run may be the reason."""


def begin_worker(experiment: Experiment[Any, Any], shares: Shares) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends workers without a traceback
    sys.stdout = sys.stderr  # plugins may print; standard output is for the answer
    of_this_worker[:] = [(experiment, shares)]
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next plan for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def run_in_worker(place: int, plan: Any) -> Any:
    [(experiment, shares)] = of_this_worker
    shares[place] = _BEGUN

    def tell(done: int, total: int) -> None:
        shares[place] = max(min(done / total, 1.0), _BEGUN) if total else 1.0

    result = checked_run(experiment, plan, tell)
    shares[place] = 1.0
    return result


# ---- Runs on a Dask cluster. Its workers need Mooring in the same version, and the plugin files under the same
# paths.


CONNECT_S = 10
"""How long the scheduler of Dask has to answer."""


def run_on_dask(
    experiment: Experiment[P, R], plans: Sequence[P], on_progress: RunProgress, address: str, digest: str
) -> Iterator[tuple[int, R]]:
    """Run plans on the cluster with this address. Yields the place of each plan, with its result, as they are done.

    `digest` is that of the experiment: a worker reads it once. Raises RunFault.
    """
    distributed = _distributed()
    with _client(distributed, address) as client:
        version = VERSION
        [sent] = client.scatter([pickle.dumps(experiment)], broadcast=True, hash=False)
        futures = {
            client.submit(run_in_dask_worker, sent, digest, version, plan, pure=False): i
            for i, plan in enumerate(plans)
        }
        for done, future in enumerate(distributed.as_completed([*futures], loop=client.loop), 1):
            on_progress(done, len(plans))
            place = futures[future]
            yield place, dask_result(experiment, plans[place], future)


def dask_result(experiment: Experiment[P, R], plan: P, future: Any) -> R:
    """Workers may lack Mooring, a plugin file, or memory: whatever they raise is told."""
    try:
        result: R = future.result()
    except RunFault as fault:
        return experiment.failed(plan, str(fault))
    except Exception as error:
        return experiment.failed(plan, f"a worker of Dask failed: {type(error).__name__}: {error}")
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
_read_inputs: dict[str, Experiment[Any, Any]] = {}
"""The experiment that this process read last, by digest."""


def run_in_dask_worker(sent: bytes, digest: str, version: str, plan: Any) -> Any:
    if version != VERSION:
        raise RunFault(f"a worker of Dask has Mooring {VERSION}, and this is {version}: install the same version")
    with _lock:
        if digest not in _read_inputs:
            _read_inputs.clear()
            _read_inputs[digest] = pickle.loads(sent)
        return checked_run(_read_inputs[digest], plan)


class SweepOptions(TypedDict, total=False):
    """How the runs of an experiment are made."""

    processes: int | None
    dask: str | None
    results: Source | None
    on_progress: RunProgress | None
    """Called as runs end."""
    on_note: Callable[[str], None] | None
    """Called with a text that says how many runs `results` has already."""


@dataclass(slots=True)
class Sweep(Generic[P, R]):
    """Makes the runs that are not done yet."""

    experiment: Experiment[P, R]
    plans: Sequence[P]
    form: RowForm[P, R]
    how: SweepOptions
    digests: Callable[[], tuple[str, Sequence[str]]]
    """The digest of what all runs have in common, and that of each plan. Called only where digests are needed."""
    pods: int
    """How many pods a run has, to decide whether worker processes are worth their start."""
    is_portable: bool = True
    """Whether another process can make the same run: plugins that are not in a file exist in this process only."""
    notes: tuple[str, ...] = ()

    @property
    def dask(self) -> str | None:
        return self.how.get("dask")

    def run(self) -> list[R]:
        """The results in the order of the plans. Raises UnusableResults, RunFault."""
        kept = self.how.get("results")
        results = None if kept is None else os.fspath(kept)
        is_named = results is not None or self.dask is not None
        common, digests = self.digests() if is_named else ("", [plan.name for plan in self.plans])
        with open_results(results, set(digests), self.form) as file:
            left = [i for i, digest in enumerate(digests) if digest not in file.done]
            found = {i: file.done[digest] for i, digest in enumerate(digests) if digest in file.done}
            if found:
                (self.how.get("on_note") or _be_silent)(
                    f"{len(found)} of {count(len(digests), 'run')} are in {results} already"
                )
            for place, result in self._made([self.plans[i] for i in left], common):
                i = left[place]
                file.write(digests[i], self.plans[i], result)
                found[i] = result
        return [found[i] for i in range(len(self.plans))]

    def _made(self, plans: Sequence[P], common: str) -> Iterable[tuple[int, R]]:
        if not plans:
            return ()
        processes, on_progress = self._processes(len(plans)), self.how.get("on_progress") or _be_silent
        if self.dask is not None:
            return run_on_dask(self.experiment, plans, on_progress, self.dask, common)
        if processes > 1:
            return run_in_processes(self.experiment, plans, on_progress, processes)
        return run_here(self.experiment, plans, on_progress)

    def _processes(self, runs: int) -> int:
        """How many processes to use."""
        if not self.is_portable:
            if self.dask is not None:
                raise UnusablePlan("dask: plugins must come from files, because other machines do not have the classes")
            if self.how.get("processes") != 1:
                self.notes = ("the runs were made in one process, because plugins are not from files",)
            return 1
        if (wanted := self.how.get("processes")) is not None:
            return wanted
        return 1 if self.pods * runs < WORTH_A_PROCESS else os.cpu_count() or 1


def _be_silent(*told: object) -> None:
    pass


def is_portable(registry: Registry) -> bool:
    """Whether another process can build the same registry: from what is installed, and from files."""
    installed = all_plugins()
    return all(name in installed or name in registry.files for name in registry)
