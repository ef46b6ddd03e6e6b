"""Makes the runs of an experiment that its results file does not have yet, and returns the results of all."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar

from mooring.answers.experiments.results_file import RowForm, open_results
from mooring.answers.experiments.run_plan import UnusablePlan
from mooring.answers.experiments.workers import (
    WORTH_A_PROCESS,
    Experiment,
    NamedPlan,
    RunProgress,
    run_here,
    run_in_processes,
    run_on_dask,
)
from mooring.framework.profile.registry import Registry
from mooring.inputs.loaded_cluster import Source
from mooring.kit.words import count
from mooring.state.scheduler_assembly import all_plugins


class SweepOptions(TypedDict, total=False):
    """How the runs of an experiment are made."""

    processes: int | None
    dask: str | None
    results: Source | None
    on_progress: RunProgress | None
    """Called as runs end."""
    on_note: Callable[[str], None] | None
    """Called with a text that says how many runs `results` has already."""


P = TypeVar("P", bound=NamedPlan)
R = TypeVar("R")


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
