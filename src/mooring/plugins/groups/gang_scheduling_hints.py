"""Which changes can complete the gang that a pod waits for."""

from mooring.framework.events import Change
from mooring.model.pod import Pod
from mooring.plugins.hints import pods_of


def joins_group(pod: Pod, change: Change) -> bool:
    """Whether a pod came that is in the same group."""
    _, new = pods_of(change)
    return new is not None and new.group_key == pod.group_key


def is_own_group(pod: Pod, change: Change) -> bool:
    """Whether it is the pod's group that came."""
    return change.new is not None and change.new.key == pod.group_key
