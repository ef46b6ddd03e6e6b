"""The wait for devices that must be prepared before the pod is bound: their drivers report on that in the claims."""

from collections.abc import Generator

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.framework.contract.intents import WriteFault
from mooring.framework.contract.points import Pause, PodGone, SchedulerServices
from mooring.framework.contract.status import PluginError
from mooring.kit.clock import NS_PER_S
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.plugins.devices.allocation import (
    FAILED,
    TIMEOUT,
    BindingFailed,
    ClaimMetrics,
    is_overdue,
    is_prepared,
    results_of,
)
from mooring.plugins.devices.claims import ClaimState, is_unwritten

POLL_NS = 5 * NS_PER_S
"""Upstream polls for binding conditions every five seconds as well; changes of the claims wake it earlier here."""


def wait_until_prepared(
    state: ClaimState, ledger: ClaimLedger, services: SchedulerServices, metrics: ClaimMetrics, timeout_ns: int
) -> Generator[Pause, KubeObject | WriteFault | None, None]:
    """Wait for binding conditions; the metrics record every way out."""
    began_ns, status = services.now_ns(), "success"
    deadline_ns = began_ns + timeout_ns
    watched = frozenset((ResourceClaim, claim.key) for claim in state.claims)
    try:
        while not _are_prepared(state, ledger, timeout_ns, services.now_ns()):
            if services.now_ns() >= deadline_ns:
                raise PluginError(f"{TIMEOUT}: context deadline exceeded")
            yield Pause(min(services.now_ns() + POLL_NS, deadline_ns), watched)
    except PluginError as fault:
        text = str(fault)
        status = "timeout" if text.startswith(TIMEOUT) else "failure" if text.startswith(FAILED) else "error"
        raise
    except (GeneratorExit, PodGone):
        status = "error"
        raise
    finally:
        devices = [result for claim in state.claims for result in results_of(claim)]
        metrics.waited(devices, status, (services.now_ns() - began_ns) / NS_PER_S)


def _are_prepared(state: ClaimState, ledger: ClaimLedger, timeout_ns: int, now_ns: int) -> bool:
    """Whether all claims are prepared, by the newest that the watch showed. The first that is not decides."""
    for index, claim in enumerate(state.claims):
        if is_unwritten(claim):
            continue
        known = ledger.get(claim.key)
        if known is None:
            raise PluginError(f'could not find ResourceClaim "{claim.key}"')
        state.claims[index] = known
        try:
            if is_prepared(known):
                continue
        except BindingFailed as fault:
            raise PluginError(str(fault)) from fault
        if is_overdue(known, timeout_ns, now_ns):
            raise PluginError(f"{TIMEOUT}: claim={known.name}")
        return False
    return True
