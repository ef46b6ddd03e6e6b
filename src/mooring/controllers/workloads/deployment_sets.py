"""The ReplicaSets of a Deployment: which one has the present template, which ones are its history, and their revisions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_writes import DEPLOYMENTS, REPLICA_SETS, change_metadata, change_object
from mooring.rules.evictions import share_of
from mooring.rules.workload_pods import HASH_LABEL, owner_reference, template_hash

# ---- The arithmetic of rolling updates, as upstream has it: how many pods there may be, how many must be available,
# and how sets share a change of size. Pure functions of numbers.


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the number of pods may differ from what is wanted during an update."""

    replicas: int
    surge: int
    """How many pods more than wanted may exist."""
    unavailable: int
    """How many pods fewer than wanted may be available."""

    @property
    def most(self) -> int:
        """The most pods that may exist at once."""
        return self.replicas + self.surge

    @property
    def fewest_available(self) -> int:
        """The fewest pods that must be available."""
        return self.replicas - self.unavailable


def rolling_bounds(replicas: int, max_surge: int | str | None, max_unavailable: int | str | None) -> Bounds:
    """Surge is rounded up, unavailable down; one of them is at least 1, otherwise no pod could ever be replaced."""
    surge = share_of(replicas, max_surge, rounds_up=True)
    unavailable = share_of(replicas, max_unavailable)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def grown(bounds: Bounds, new: int, total: int) -> int:
    """The next size of the new set, when all sets together have `total` replicas."""
    if new >= bounds.replicas:
        return bounds.replicas
    return new + max(0, min(bounds.most - total, bounds.replicas - new))


class Size(NamedTuple):
    """The replicas of a set, and how many of them are available."""

    replicas: int
    available: int


def shrunk(bounds: Bounds, new: Size, old: Sequence[Size]) -> list[int]:
    """The next sizes of the old sets, which come oldest first. Replicas that are not available go first, of whichever
    set."""
    sizes = [size.replicas for size in old]
    total = new.replicas + sum(sizes)
    # Pods that may go without a look at availability: unavailable ones of the new set count as still missing.
    spare = total - bounds.fewest_available - (new.replicas - new.available)
    # Step 1: old pods that are not available serve no requests and go first, as many as the bound allows.
    for i, size in enumerate(old):
        gone = max(0, min(spare, size.replicas - size.available))
        sizes[i] -= gone
        spare -= gone
    # Nothing went and nothing may go.
    if spare <= 0 and sum(sizes) == sum(size.replicas for size in old):
        return sizes
    # Step 2: available old pods go, as many as are available beyond the minimum.
    left = new.available + sum(size.available for size in old) - bounds.fewest_available
    for i in range(len(sizes)):
        gone = max(0, min(left, sizes[i]))
        sizes[i] -= gone
        left -= gone
    return sizes


class Part(NamedTuple):
    """One of several sets that share a change of size."""

    replicas: int
    most_before: int
    """Number of pods that all sets together were allowed to have when this set was last sized."""


def proportional(bounds: Bounds, parts: Sequence[Part]) -> list[int]:
    """The sizes of the sets of a Deployment that is scaled in the middle of an update: each gets its share.

    The parts come in the order in which rounding favours them; the first also gets what is left over.
    """
    allowed = bounds.most if bounds.replicas > 0 else 0
    # Positive: pods to add; negative: pods to remove. `added` approaches it set by set.
    to_add = allowed - sum(part.replicas for part in parts)
    added, sizes = 0, []
    for part in parts:
        step = _fraction(bounds, part) if part.replicas else 0
        room = to_add - added
        step = min(step, room) if to_add > 0 else max(step, room)
        sizes.append(part.replicas + (step if to_add and room else 0))
        added += step if to_add and room else 0
    if sizes and to_add != added:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return sizes


def _fraction(bounds: Bounds, part: Part) -> int:
    """The share of one set in the change. Parity: rounded to nearest, in floating point, as upstream does."""
    if bounds.replicas == 0:
        return -part.replicas
    if part.most_before <= 0:
        return 0
    return int(part.replicas * bounds.most / part.most_before + 0.5) - part.replicas


# Upstream's annotations: kubectl rollout reads them.
REVISION = "deployment.kubernetes.io/revision"
_HISTORY = "deployment.kubernetes.io/revision-history"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MOST = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = {
    *(REVISION, _HISTORY, _DESIRED, _MOST),
    *("kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to"),
}
"""Annotations that belong to the Deployment alone."""


@dataclass(slots=True)
class DeploymentSync:
    """A Deployment during one sync: its sets as they are now, and the conditions that go into its status."""

    deployment: JsonObject
    """The object as last read or written."""
    new: JsonObject | None
    """The set with the present template; None: it has to be created."""
    old: list[JsonObject]
    """The oldest first."""
    conditions: list[JsonObject]
    """Conditions for the status; `note` replaces them one by one."""
    collisions: int
    """How many names of new sets were taken: they are part of the hash."""
    events: list[str] = field(default_factory=list)
    """Messages about what was scaled, recorded at the end of the sync."""

    @property
    def sets(self) -> list[JsonObject]:
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def bounds(self) -> Bounds:
        return bounds_of(self.deployment)


def look_at(deployment: JsonObject, owned: Sequence[JsonObject]) -> DeploymentSync:
    """Sort the sets. Parity: of several sets with the present template, the oldest is the new one."""
    by_age = sorted(owned, key=_age)
    template = deployment["spec"]["template"]
    new = next((item for item in by_age if _without_hash(item["spec"]["template"]) == template), None)
    status = deployment.get("status", {})
    old = [item for item in by_age if item is not new]
    return DeploymentSync(deployment, new, old, list(status.get("conditions", ())), status.get("collisionCount", 0))


def bounds_of(deployment: JsonObject) -> Bounds:
    """How far the number of pods may differ during an update; Recreate has no margins."""
    spec = deployment["spec"]
    if is_recreated(deployment):
        return Bounds(spec["replicas"], 0, 0)
    rolling = spec["strategy"].get("rollingUpdate", {})
    return rolling_bounds(spec["replicas"], rolling.get("maxSurge"), rolling.get("maxUnavailable"))


def is_recreated(deployment: JsonObject) -> bool:
    return bool(deployment["spec"]["strategy"]["type"] == "Recreate")


def replicas_of(replica_set: JsonObject) -> int:
    replicas: int = replica_set["spec"]["replicas"]
    return replicas


def available_of(replica_set: JsonObject) -> int:
    available: int = replica_set.get("status", {}).get("availableReplicas", 0)
    return available


def revision_of(item: JsonObject) -> int:
    text = annotations_of(item).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def annotations_of(item: JsonObject) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("annotations", {})
    return found


def is_rescaled(sync: DeploymentSync) -> bool:
    """Whether a set with pods was sized for another number of replicas than is wanted now."""
    wanted = str(sync.deployment["spec"]["replicas"])
    return any(replicas_of(item) and annotations_of(item).get(_DESIRED, wanted) != wanted for item in sync.sets)


def most_before(replica_set: JsonObject, deployment: JsonObject) -> int:
    """How many pods the Deployment was allowed when this set was last sized: shares are computed from it."""
    text = annotations_of(replica_set).get(_MOST, "")
    return int(text) if text.isdecimal() and int(text) else deployment.get("status", {}).get("replicas", 0)


class ReplicaSetWriter:
    """Creates and changes the sets of Deployments."""

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def refresh_new(self, sync: DeploymentSync) -> None:
        """Copy the Deployment's annotations and minReadySeconds to the new set, and give it a revision above all
        others."""
        assert sync.new is not None
        spec, wanted = sync.new["spec"], sync.deployment["spec"].get("minReadySeconds", 0)
        annotations = _annotations(sync, annotations_of(sync.new))
        if annotations != annotations_of(sync.new) or spec.get("minReadySeconds", 0) != wanted:
            sync.new = self._change(sync.new, annotations, {**spec, "minReadySeconds": wanted})
        self._note_revision(sync)

    def create_new(self, sync: DeploymentSync, replicas: int) -> None:
        """Create the set of the present template. If another object has its name the hash is computed anew."""
        for collisions in count(sync.collisions):
            made = self._new_set(sync, replicas, collisions)
            try:
                sync.new = self._api.create(REPLICA_SETS, sync.deployment["metadata"]["namespace"], made)
                break
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
                sync.collisions = collisions + 1
        self._note_revision(sync)

    def resize(self, sync: DeploymentSync, replica_set: JsonObject, replicas: int) -> None:
        """Set the size, and note in annotations what the size was computed for."""
        annotations = {**annotations_of(replica_set), **_sizes(sync)}
        changed = self._change(replica_set, annotations, {**replica_set["spec"], "replicas": replicas})
        sync.new = changed if replica_set is sync.new else sync.new
        sync.old = [changed if item is replica_set else item for item in sync.old]
        if replicas != replicas_of(replica_set):
            way = "up" if replicas > replicas_of(replica_set) else "down"
            name = replica_set["metadata"]["name"]
            sync.events.append(f"Scaled {way} replica set {name} from {replicas_of(replica_set)} to {replicas}")

    def _change(self, replica_set: JsonObject, annotations: dict[str, str], spec: JsonObject) -> JsonObject:
        """Write annotations and spec if one of them differs."""
        if annotations == annotations_of(replica_set) and spec == replica_set["spec"]:
            return replica_set

        def change(held: JsonObject) -> JsonObject:
            return {**held, "metadata": {**held["metadata"], "annotations": annotations}, "spec": spec}

        return change_object(self._api, REPLICA_SETS, replica_set, change)

    def _new_set(self, sync: DeploymentSync, replicas: int, collisions: int) -> JsonObject:
        """The manifest: the hash of the template is part of name, labels and selector, so that sets do not share pods."""
        deployment, spec = sync.deployment, sync.deployment["spec"]
        template = spec["template"]
        digest = template_hash(template, collisions)
        labels = {**template.get("metadata", {}).get("labels", {}), HASH_LABEL: digest}
        selector = spec["selector"]
        return {
            "metadata": {
                "name": f"{deployment['metadata']['name']}-{digest}",
                "labels": labels,
                "annotations": {**_annotations(sync, {}), **_sizes(sync)},
                "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {**selector, "matchLabels": {**selector.get("matchLabels", {}), HASH_LABEL: digest}},
                "template": {**template, "metadata": {**template.get("metadata", {}), "labels": labels}},
            },
        }

    def _note_revision(self, sync: DeploymentSync) -> None:
        """Copy the revision of the new set to the Deployment."""
        assert sync.new is not None
        revision = annotations_of(sync.new).get(REVISION)
        if revision is None or annotations_of(sync.deployment).get(REVISION) == revision:
            return
        annotations = {**annotations_of(sync.deployment), REVISION: revision}
        sync.deployment = change_metadata(self._api, DEPLOYMENTS, sync.deployment, annotations=annotations)


def _annotations(sync: DeploymentSync, held: dict[str, str]) -> dict[str, str]:
    """The annotations of the new set: its own, the Deployment's, its revision and the ones that it had before."""
    copied = {key: text for key, text in annotations_of(sync.deployment).items() if key not in _NOT_COPIED}
    revision = max((revision_of(item) for item in sync.old), default=0) + 1
    made = {**held, **copied}
    before = held.get(REVISION, "")
    if not before.isdecimal() or int(before) < revision:
        made[REVISION] = str(revision)
        if before:
            made[_HISTORY] = ",".join(filter(None, (held.get(_HISTORY, ""), before)))
    return made


def _sizes(sync: DeploymentSync) -> dict[str, str]:
    return {_DESIRED: str(sync.bounds.replicas), _MOST: str(sync.bounds.most)}


def _without_hash(template: JsonObject) -> JsonObject:
    """The template as the Deployment has it."""
    metadata = template.get("metadata", {})
    labels = {key: value for key, value in metadata.get("labels", {}).items() if key != HASH_LABEL}
    rest = {key: value for key, value in metadata.items() if key != "labels"}
    return {**template, "metadata": {**rest, "labels": labels} if labels else rest}


def _age(item: JsonObject) -> tuple[str, int, str]:
    """Times are in whole seconds: within one, the lower revision is the older."""
    return item["metadata"]["creationTimestamp"], revision_of(item), item["metadata"]["name"]
