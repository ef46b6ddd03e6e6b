"""Takes in changes of PodGroups and CompositePodGroups: first the cluster, then the queue, whose members may be complete now
or wait for a group that is gone."""

from mooring.cluster.pods.group_tree import name_of
from mooring.model.workloads import AnyPodGroup
from mooring.scheduler.core import Core


def group_changed(core: Core, old: AnyPodGroup | None, new: AnyPodGroup | None) -> None:
    """A group came, changed or went. One that changed its parent counts as gone and come again."""
    tree, queue = core.cluster.group_tree, core.queue.groups
    is_other = old is None or new is None or old.parent_key != new.parent_key
    root = tree.root_of(name_of(old)) if old is not None and is_other else None
    leaves = tree.leaves(root) if root is not None else []
    if new is not None:
        core.cluster.put(new)
    elif old is not None:
        core.cluster.remove(type(old), old.key)
    if queue is None:
        return
    if old is not None and is_other:
        queue.group_removed(name_of(old), root, leaves)
    if new is not None:
        (queue.group_added if is_other else queue.group_updated)(name_of(new))
