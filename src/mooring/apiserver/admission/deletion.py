"""How objects end: at once, after a pod's grace, or when the last finalizer is gone."""

from dataclasses import dataclass
from typing import Literal

from mooring.kit.clock import NS_PER_S, in_seconds, moment_ns
from mooring.model.api_errors import conflict
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.pod_spec import FINISHED_PHASES

Propagation = Literal["Background", "Foreground", "Orphan"]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""The finalizers by which the garbage collector is asked to see to the dependents first."""

_DEFAULT_GRACE_S = 30
LONGEST_GRACE_S = 1 << 32
"""Longer than anybody waits, and short enough for a date to say when that is over."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a client says of how to delete."""

    grace_s: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    version: str = ""


def check_preconditions(resource: KindSpec, item: JsonObject, how: Deletion) -> None:
    meta = item["metadata"]
    for what, expected, held, advice in (
        ("UID", how.uid, meta["uid"], ". The object might have been deleted and then recreated"),
        ("ResourceVersion", how.version, meta["resourceVersion"], ". The object might have been modified"),
    ):
        if expected and expected != held:
            why = f"the {what} in the precondition ({expected}) does not match the {what} in record ({held}){advice}"
            raise conflict(resource.kind, meta["name"], why, resource.group)


def ending(resource: KindSpec, item: JsonObject, how: Deletion, now_ns: int) -> JsonObject:
    """The object on its way out. Asking again can make that shorter, never longer."""
    grace_s = _grace_s(item, how) if resource.has_grace_period else 0
    meta = {**item["metadata"]}
    is_first = not meta.get("deletionTimestamp")
    if is_first and "generation" in meta:
        meta["generation"] += 1
    if is_first:
        meta["deletionTimestamp"] = in_seconds(now_ns + min(grace_s, LONGEST_GRACE_S) * NS_PER_S)
        meta["deletionGracePeriodSeconds"] = grace_s
    elif grace_s < meta.get("deletionGracePeriodSeconds", 0) and (how.grace_s is not None or not grace_s):
        _shorten(meta, grace_s, now_ns)
    _ask_collector(meta, how)
    ended = {**item, "metadata": meta}
    if resource.has_spec_finalizers:
        ended["status"] = {**item.get("status", {}), "phase": "Terminating"}
    return ended


def deleted_ns(meta: JsonObject) -> int:
    """When an object that is on its way out was first deleted."""
    grace_s = min(meta.get("deletionGracePeriodSeconds") or 0, LONGEST_GRACE_S)
    return moment_ns(meta["deletionTimestamp"]) - grace_s * NS_PER_S


def _shorten(meta: JsonObject, grace_s: int, now_ns: int) -> None:
    """The grace counts from when the object was first deleted. One that is over by now becomes the shortest there is."""
    end_ns = deleted_ns(meta) + min(grace_s, LONGEST_GRACE_S) * NS_PER_S
    if end_ns < now_ns:
        end_ns, grace_s = now_ns, min(grace_s, 1)
    meta["deletionTimestamp"] = in_seconds(end_ns)
    meta["deletionGracePeriodSeconds"] = grace_s


def _grace_s(pod: JsonObject, how: Deletion) -> int:
    """Nobody waits for a pod that runs nowhere or has finished."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in FINISHED_PHASES:
        return 0
    asked = how.grace_s if how.grace_s is not None else pod["spec"].get("terminationGracePeriodSeconds")
    grace_s = _DEFAULT_GRACE_S if asked is None else int(asked)
    return grace_s if grace_s >= 0 else 1


def _ask_collector(meta: JsonObject, how: Deletion) -> None:
    if how.propagation is None:
        return
    wanted = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[how.propagation]
    others = [finalizer for finalizer in meta.get("finalizers", ()) if finalizer not in (FOREGROUND, ORPHAN)]
    meta["finalizers"] = [*others, *wanted]
    if not meta["finalizers"]:
        del meta["finalizers"]


def is_over(resource: KindSpec, item: JsonObject) -> bool:
    """Whether nothing holds an object any more that is to be deleted."""
    meta = item["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if resource.has_spec_finalizers and item.get("spec", {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
