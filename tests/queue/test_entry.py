"""A pod in the queue: what is remembered of it at first, and what an attempt that failed leaves."""

from queue_rig import PROFILE, a_pending

from mooring.queue.entry import LabelCounts, QueuedPod, new_entry


def test_a_new_entry_has_no_past() -> None:
    entry = new_entry(pod := a_pending(), 7)
    assert {name: getattr(entry, name) for name in QueuedPod.__struct_fields__} == {
        "pod": pod,
        "key": "default/pod",
        "uid": "uid-pod",
        "timestamp_ns": 7,
        "initial_attempt_ns": None,
        "attempts": 0,
        "began_ns": 0,
        "unschedulable_count": 0,
        "consecutive_errors": 0,
        "backoff_until_ns": None,
        "unschedulable_plugins": (),
        "pending_plugins": (),
        "gating_plugin": "",
        "gating_message": "",
        "was_flushed": False,
        "flushed_ns": 0,
        "start": 0,
    }
    assert (entry.profile, entry.is_gated, entry.rejectors) == (PROFILE, False, ())


def test_a_failed_attempt_replaces_who_rejected_and_who_gated() -> None:
    entry = new_entry(a_pending(), 0)
    entry.gating_plugin, entry.gating_message = "Gate", "no"
    entry.reject_by(["B", "A", "B"], pending=["C", "B"])
    assert (entry.unschedulable_plugins, entry.pending_plugins) == (("A", "B"), ("B", "C"))
    assert not entry.gating_plugin and not entry.gating_message
    assert entry.rejectors == ("B", "C", "A"), "those that wait come first, each once"
    assert not entry.is_gated


def test_an_entry_shows_who_it_is() -> None:
    entry = new_entry(a_pending(), 0)
    entry.reject_by(["A"])
    assert repr(entry) == "QueuedPod(default/pod, attempts=0, rejectors=['A'])"


def test_what_was_never_counted_is_zero_and_stays_unlisted() -> None:
    counts: LabelCounts[str] = LabelCounts()
    assert counts["a"] == 0 and counts == {}
    counts["a"] += 1
    counts["a"] += 1
    assert counts == {"a": 2}
