"""Small changes to a cluster, as values: a question tries them, and a user can make them.

`edited` applies them to a list of objects, `Counterfactual.changed` to a cluster for a moment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class ChangePod:
    """The pending pod that the question is about has another form."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PutObject:
    """An object that is no pod is added, or replaced if there is one of its name."""

    item: KubeObject


@dataclass(frozen=True, slots=True)
class RemovePod:
    """A pod leaves its node and does not come back."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class MovePod:
    """A pod leaves its node and runs on another one."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PlacePod:
    """A pod that is in no list yet runs on a node: the pod of a DaemonSet on a new node."""

    pod: Pod


Edit = ChangePod | PutObject | RemovePod | MovePod | PlacePod


def edited(objects: Iterable[KubeObject], edits: Sequence[Edit]) -> list[KubeObject]:
    """The objects after the edits, in their order."""
    after = {(type(item), item.key): item for item in objects}
    for edit in edits:
        match edit:
            case PutObject(item):
                after[type(item), item.key] = item
            case RemovePod(pod):
                after.pop((Pod, pod.key), None)
            case MovePod(pod, node):
                after[Pod, pod.key] = pod.with_node(node)
            case ChangePod(pod) | PlacePod(pod):
                after[Pod, pod.key] = pod
    return list(after.values())


def changed_pod(pod: Pod, edits: Iterable[Edit]) -> Pod:
    """The form that the pod of a question has after the edits."""
    return next((edit.pod for edit in edits if isinstance(edit, ChangePod)), pod)
