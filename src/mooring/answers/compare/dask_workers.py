"""Runs on a Dask cluster. Its workers need Mooring in the same version, and the plugin files under the same paths."""

import pickle
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from mooring.answers.compare.run import RunInputs, RunResult
from mooring.answers.compare.run_plan import RunPlan
from mooring.answers.compare.workers import Progress, RunFault, checked_run
from mooring.kit.version import VERSION

CONNECT_S = 10
"""How long the scheduler of Dask has to answer."""


def run_on_dask(
    inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Progress, address: str, digest: str
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
