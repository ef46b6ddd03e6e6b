"""All comparisons of a running scheduler with a fresh one, in the order in which one fault explains the next."""

from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.claim_differences import compare_devices, compare_volumes
from mooring.state.check.decisions import DecisionComparison
from mooring.state.check.difference import Findings, StateDifference
from mooring.state.check.membership import compare_assumed, compare_nominations, compare_pods, compare_queue
from mooring.state.check.nomination_differences import compare_groups, compare_nominated
from mooring.state.check.object_differences import compare_objects
from mooring.state.check.table_differences import compare_tables
from mooring.state.check.tally_differences import compare_tallies


def findings(running: Scheduler, fresh: Scheduler) -> Findings:
    """What differs, one by one. Between two steps both may change, as long as they change in step."""
    ours, theirs = running.cluster, fresh.cluster
    yield from compare_objects(ours, theirs)
    yield from compare_pods(running, fresh)
    yield from compare_tables(ours, theirs)
    yield from compare_tallies(ours.nodes, theirs.nodes)
    yield from compare_volumes(ours, theirs)
    yield from compare_devices(ours, theirs)
    yield from compare_nominated(ours, theirs)
    yield from compare_groups(ours, theirs)
    yield from compare_nominations(running, fresh)
    yield from compare_queue(running, fresh)
    yield from compare_assumed(running, fresh)
    yield from DecisionComparison(running, fresh).findings()


def compare(running: Scheduler, fresh: Scheduler) -> list[StateDifference]:
    """What differs now."""
    return [found for found in findings(running, fresh) if found is not None]
