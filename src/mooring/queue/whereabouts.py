"""Where a pod is in the queue, also if it is where it should not be; what it waits for; and how it is put right."""

from mooring.framework.contract.events import FORCE_ACTIVATE
from mooring.model.pod import Pod
from mooring.queue.entry import Place, QueuedPod, new_entry
from mooring.queue.queue import SchedulingQueue


def places_of(queue: SchedulingQueue, key: str) -> list[Place]:
    """All places that have the pod. More than one is a fault."""
    places = queue._places
    found: list[Place] = ["active"] if key in places.active else []
    found += ["backoff" for heap in (places.backoff.rejected, places.backoff.errors) if key in heap]
    unschedulable = places.unschedulable.get(key)
    if unschedulable is not None:
        found.append("gated" if unschedulable.is_gated else "unschedulable")
    return found


def in_flight_ids(queue: SchedulingQueue) -> list[str]:
    """The pods whose attempts are under way, or that wait on Permit."""
    return queue._in_flight.uids()


def in_flight_entry(queue: SchedulingQueue, uid: str) -> QueuedPod | None:
    return queue._in_flight.entry(uid)


def waking_events(queue: SchedulingQueue, entry: QueuedPod) -> list[str]:
    """The changes that may have a rejected pod tried again, such as `Node/Add`: its rejectors registered them."""
    events = (event for plugin in entry.rejectors for event in queue._hints.events_of(plugin))
    return list(dict.fromkeys(name for event in events for name in event.names()))


def put_right(queue: SchedulingQueue, key: str, pod: Pod | None) -> None:
    """Forget a pod wherever it waits, and queue it once, active, if it is to wait (`pod`)."""
    found = queue._places.remove(key)
    while queue._places.remove(key) is not None:
        pass
    if pod is None:
        return
    queue._in_flight.finish(pod.id)
    entry = found if found is not None and found.uid == pod.id else new_entry(pod, queue._clock.now_ns())
    entry.pod = pod
    queue._places.to_active(entry, FORCE_ACTIVATE.label)


def end_flight(queue: SchedulingQueue, uid: str) -> None:
    """An attempt that seems to be under way is over."""
    queue._in_flight.finish(uid)
