"""VolumeZone: a volume that says in which zone or region it is goes only to nodes there."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mooring.api.kinds.storage import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from mooring.cluster.columns.labels import ABSENT
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, Action, Change, ClusterEvent, Registration
from mooring.framework.contract.points import Codes, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, Rejection, Skip, final
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.volumes import SUCCESSORS, TOPOLOGY_LABELS, ZoneRule, named_claims, zone_rules
from mooring.plugins.volumes.volume_claims import CLAIMS, VolumePlugin, named_claim_came

_ELSEWHERE, _NO_RULES = 1, 2
"""Codes of `filter`."""


class VolumeZone(PreFilterPlugin, VolumePlugin):
    """For volumes of before CSI topology: their labels say where they are. No `@reads`: it depends on claims and
    volumes."""

    name = "VolumeZone"
    skips_resizes = True
    counts_pods = False

    def events(self) -> Sequence[Registration]:
        return ZONE_EVENTS

    @reads(Reads.CLUSTER, PodPart.STORAGE)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Collect the rules of the bound volumes. Parity: volumes made for the pod alone (ephemeral ones) are not
        looked at."""
        if not context.shape.has_storage:
            return SKIP_SHAPE
        rules = _rules(context)
        if isinstance(rules, Rejection):
            return rules
        if not rules:
            return SKIP
        context.state.write(self.name, rules)
        return None

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """A node passes if its labels agree with all rules. Parity: in a profile without PreFilter the rules are found
        here, and a claim that has none rejects each node."""
        rules: tuple[ZoneRule, ...] | Rejection | None = context.state.find(self.name)
        if rules is None:
            rules = _rules(context)
        if isinstance(rules, Rejection):
            return np.full(len(context.nodes.alive[rows]), _NO_RULES, np.int64)
        labels = context.nodes.labels
        is_placed = np.zeros(len(context.nodes.alive[rows]), np.bool_)
        for key in TOPOLOGY_LABELS:
            is_placed |= labels.column(key).codes[rows] != ABSENT
        admitted = np.ones(len(is_placed), np.bool_)
        for rule in rules:
            admitted &= _admits(context, rule, rows)
        # Parity: nodes that name neither zone nor region are taken for a cluster without any.
        codes = (is_placed & ~admitted) * _ELSEWHERE
        return codes if codes.any() else None

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        rules = _rules(context) if code == _NO_RULES else None
        return rules if isinstance(rules, Rejection) else final("node(s) had no available volume zone")


def _rules(context: SchedulingContext) -> tuple[ZoneRule, ...] | Rejection:
    """The rules of the bound volumes of the pod, or why a claim has none."""
    rules: list[ZoneRule] = []
    for name in named_claims(context.pod):
        volume = _volume_of(context, name)
        if isinstance(volume, Rejection):
            return volume
        if volume is not None:
            rules += zone_rules(volume)
    return tuple(dict.fromkeys(rules))


def _volume_of(context: SchedulingContext, claim_name: str) -> PersistentVolume | Rejection | None:
    """The volume of a claim; None where it is yet to be chosen."""
    storage = context.cluster.storage
    if not claim_name:
        return final("PersistentVolumeClaim had no name")
    claim = storage.claims.get(f"{context.pod.namespace}/{claim_name}")
    if claim is None:
        return final(f'persistentvolumeclaim "{claim_name}" not found')
    if not claim.spec.volume_name:
        return _unbound(context, claim)
    volume = storage.volumes.get(claim.spec.volume_name)
    return volume or final(f'persistentvolume "{claim.spec.volume_name}" not found')


def _unbound(context: SchedulingContext, claim: PersistentVolumeClaim) -> Rejection | None:
    """Whether a claim without a volume may stay so until the pod has a node; otherwise why not, in upstream's words."""
    name = claim.class_name
    if not name:
        return final("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = context.cluster.storage.classes.get(name)
    if storage_class is None:
        return final(f'storageclass.storage.k8s.io "{name}" not found')
    if storage_class.volume_binding_mode is None:
        return final(f'VolumeBindingMode not set for StorageClass "{name}"')
    is_delayed = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return None if is_delayed else final("PersistentVolume had no name")


def _admits(context: SchedulingContext, rule: ZoneRule, rows: Rows) -> NDArray[np.bool_]:
    """Rows whose node is where the volume is; a label of the first generation is also looked for under today's name."""
    key, values = rule
    found = _is_one_of(context, key, values, rows)
    successor = SUCCESSORS.get(key)
    if successor is not None:
        without = context.nodes.labels.column(key).codes[rows] == ABSENT
        found |= without & _is_one_of(context, successor, values, rows)
    return found


def _is_one_of(context: SchedulingContext, key: str, values: frozenset[str], rows: Rows) -> NDArray[np.bool_]:
    column = context.nodes.labels.column(key)
    admitted = np.zeros(column.width, np.bool_)
    admitted[[column.value_book[value] for value in values if value in column.value_book]] = True
    found: NDArray[np.bool_] = admitted[column.codes[rows]]
    return found


# ---- Queueing hints: claims, volumes and nodes may have come together.


def class_can_wait(pod: Pod, change: Change) -> bool:
    """Whether claims of the new class wait for their pods: such claims are no obstacle."""
    return cast("StorageClass", change.new).volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def volume_moved(pod: Pod, change: Change) -> bool:
    """Whether a volume is new, or is somewhere else now."""
    old, new = cast("PersistentVolume | None", change.old), cast("PersistentVolume", change.new)
    return old is None or zone_rules(old) != zone_rules(new)


ZONE_EVENTS = (
    Registration(ClusterEvent(STORAGE_CLASS.event, Action.ADD), class_can_wait),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD | Action.UPDATE), named_claim_came, CLAIMS),
    Registration(ClusterEvent(PERSISTENT_VOLUME.event, Action.ADD | Action.UPDATE), volume_moved),
)


PLUGINS = (VolumeZone,)
