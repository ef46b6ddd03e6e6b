"""What a pod waits for in the queue of its scheduler, as a snapshot knows it."""

from mooring.queue.queue_record import ON_PERMIT, WaitingPodRecord


def queue_waits(record: WaitingPodRecord) -> list[str]:
    """The ends of a sentence that begins with "It waits for"."""
    if record.place == "backoff":
        until = f" until {record.backoff_until}" if record.backoff_until else ""
        return [f"the end of its backoff{until}, after {_attempts(record.attempts)}"]
    if record.place == ON_PERMIT:
        told = (f"{each.plugin} (at most until {each.until})" if each.until else each.plugin for each in record.permits)
        return [f"the Permit {'plugin' if len(record.permits) == 1 else 'plugins'} {', '.join(told)}"]
    return ["its turn in the active queue"] if record.place == "active" else []


def _attempts(number: int) -> str:
    return f"{number} attempt" if number == 1 else f"{number} attempts"
