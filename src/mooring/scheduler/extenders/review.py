"""Extenders review preemption: each may drop candidate nodes, and change the victims on the others."""

from collections.abc import Mapping

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallFault, CallReply
from mooring.framework.contract.points import Victims
from mooring.model.pod import Pod
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.replies import MetaVictims, Unusable, preempt_call, read_victims
from mooring.scheduler.extenders.steps import Steps

SKIPPED = "Skipped extender as it returned error and has ignorable flag set"
IGNORED_NODE = "Ignored node for which the extender didn't report victims"


def review(
    interested: InterestedExtenders, pod: Pod, nodes: NodeTable, victims: Mapping[str, Victims]
) -> Steps[Mapping[str, Victims] | CallFault]:
    """The victims by node after all extenders with a preemptVerb have reviewed them; a fault if one fails that is not
    ignorable.

    Parity: a node without victims ends preemption with an error, unless the extender is ignorable: then the node is
    dropped.
    """
    for extender in interested.extenders:
        if not extender.preempt_verb:
            continue
        (reply,) = yield (preempt_call(extender, pod, victims),)
        try:
            victims = _reviewed(extender, reply, nodes)
        except Unusable as fault:
            if not extender.ignorable:
                return CallFault(str(fault))
            interested.skip(SKIPPED, extender, fault)
            continue
        empty = [name for name, on in victims.items() if not on.pods]
        if empty and not extender.ignorable:
            return CallFault(f'expected at least one victim pod on node "{empty[0]}"')
        for name in empty:
            interested.skip(IGNORED_NODE, extender, f"node {name}")
        victims = {name: on for name, on in victims.items() if on.pods}
        if not victims:
            break
    return victims


def _reviewed(extender: Extender, reply: CallReply, nodes: NodeTable) -> dict[str, Victims]:
    """Translate a reply back into pods. Raises Unusable for nodes and pods that do not exist."""
    return {name: _found(extender, name, meta, nodes) for name, meta in read_victims(reply).items()}


def _found(extender: Extender, name: str, meta: MetaVictims, nodes: NodeTable) -> Victims:
    """The pods that are meant, in the order in which the extender gave them."""
    row = nodes.row_book.get(name)
    if row is None or not nodes.alive[row]:
        raise Unusable(f'nodeinfo not found for node name "{name}"')
    there = {pod.id: pod for pod in nodes.pods_on[row]}
    for uid in meta.uids:
        if uid not in there:
            raise Unusable(
                f"extender: {extender.shown_url} claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not "
                "found on that node"
            )
    return Victims(tuple(there[uid] for uid in meta.uids), meta.violations)
