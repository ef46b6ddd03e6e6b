"""Server-side apply: a manager says which fields it wants and how; it owns those, and gives up what it no longer names.

Who owns what is kept in `metadata.managedFields`. Nothing is changed in place: results share with their inputs whatever
is the same as there. Everything works on paths (`merge_keys.Path`): an owner is a set of paths, a difference between
two objects is two sets, and conflicts are intersections of them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from mooring.api import api_errors as errors
from mooring.api.fields import ANYTHING
from mooring.api.json_objects import MAX_OBJECT_BYTES, JsonObject, metadata_of
from mooring.api.patches.json_patch import equal
from mooring.api.patches.merge_keys import (
    CustomPlace,
    MergePlace,
    Owner,
    Path,
    Paths,
    bare,
    compact,
    owners_of,
    path_text,
    root_place,
    with_owners,
)
from mooring.api.structural_schema import Schema

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns what an object without managedFields has when it is applied to for the first time."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which client-side apply of kubectl keeps what it applied last."""
_MOST_TOLD = 1000
"""How many conflicts a refusal lists: each has the whole path of its field, which may be long."""
_AROUND_KEY = len('"":{},')
"""The least that FieldsV1 has around a key."""
_ABSENT = object()
"""Stands for a value that is not there; None is a value, null."""
_PARTED = object()
"""Stands for a value that is compared part by part."""
_BOOKKEEPING = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "clusterName"),
    "managedFields",
)
"""Metadata that the server sets: no writer owns it, whatever a client sends."""
_UNOWNED: Paths = frozenset(
    (("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _BOOKKEEPING))
)
"""Paths that no owner has."""


@dataclass(frozen=True, slots=True)
class FieldWriter:
    """The writer of a change: its name, the version and subresource it goes through, and when (RFC 3339, in seconds).

    `resets` names top-level fields that cannot be written this way, so that the writer does not come to own them:
    `status` without a subresource, `spec` and others through `status`.
    """

    manager: str
    api_version: str
    time: str
    subresource: str = ""
    resets: frozenset[str] = frozenset()
    schema: Schema | None = None
    """The schema of the objects, if they are of a custom kind."""

    def counted(self, paths: Iterable[Path]) -> Paths:
        """The paths that this writer can own or change."""
        return frozenset(path for path in paths if path and path[0].removeprefix("f:") not in self.resets)


def apply_configuration(
    live: JsonObject | None, configuration: object, by: FieldWriter, force: bool = False
) -> JsonObject:
    """The object with the configuration applied, and with managedFields; `live` is None if there is no such object yet.

    If nothing changes, the result equals `live`. Raises ApiError: 409 if fields would change that others own, unless
    forced; 400 and 422 for what cannot be applied.
    """
    with errors.shallow_enough():
        wanted = _checked(live, configuration, by)
        owners = owners_of(live)
        if live is not None and not owners:
            owners = [_first_owner(live, by)]
        return _applied(live or {}, wanted, by, owners, force)


def record_update(live: JsonObject | None, new: JsonObject, by: FieldWriter) -> JsonObject:
    """The new object with managedFields after any other write than an apply: the writer owns what it changed.

    As in kube-apiserver, a write may bring managedFields of its own, `[]` or `[{}]` drops them, and an object without
    them gets none before it is applied to.
    """
    with errors.shallow_enough():
        owners = _owners_before(live, new, by)
        if live is not None and not owners:
            return bare(new)
        me = Owner(by.manager, "Update", by.api_version, by.subresource, by.time)
        old = bare(live) if live is not None else _unwritten(new)
        difference = _difference(old, bare(new), _root(new, by), by)
        gone = difference.changed | difference.removed
        owners_book = {owner.identity: owner.without(gone) for owner in owners}
        if gained := difference.changed - _UNOWNED:
            known = owners_book.get(me.identity, me)
            owners_book[me.identity] = replace(known, paths=known.paths | gained, time=by.time)
        return with_owners(new, owners_book.values())


def _owners_before(live: JsonObject | None, new: JsonObject, by: FieldWriter) -> list[Owner]:
    """The owners that an update starts from: those that the writer sends, unless it sends none or goes through a
    subresource."""
    if by.subresource:
        return owners_of(live)
    given = metadata_of(new).get("managedFields")
    return [] if given == [] or given == [{}] else owners_of(new) or owners_of(live)


# Applying


def _checked(live: JsonObject | None, configuration: object, by: FieldWriter) -> JsonObject:
    """The configuration, if it can be applied at all. Raises ApiError 400 or 422 in upstream's words."""
    if not by.manager:
        fault = errors.field_required("fieldManager", "is required for apply patch")
        raise errors.invalid("PatchOptions", "", [fault], "meta.k8s.io")
    if not isinstance(configuration, dict):
        raise errors.undecodable(configuration, "value of type map[string]interface {}", "error decoding patch: ")
    version, kind = configuration.get("apiVersion"), configuration.get("kind")
    if not kind or not version or (live is not None and live.get("kind", kind) != kind):
        shown = str(version or "")
        raise errors.bad_request(f"invalid object type: {shown if '/' in shown else '/' + shown}, Kind={kind or ''}")
    if version != by.api_version:
        expected = f"Specified patch version: {version}, expected: {by.api_version}"
        raise errors.bad_request(f"Incorrect version specified in apply patch. {expected}")
    if metadata_of(configuration).get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    return configuration


def _telling(value: Any, place: MergePlace) -> Any:
    """A configuration without empty lists of items: they say nothing that could be owned or merged."""
    if isinstance(value, list) and place.is_keyed:
        return [_telling(item, place.inside("")) for item in value]
    if not isinstance(value, dict):
        return value
    parts = {name: (_telling(part, place.at(name)), place.at(name)) for name, part in value.items()}
    return {name: part for name, (part, inner) in parts.items() if part != [] or not inner.is_keyed}


def _applied(live: JsonObject, wanted: JsonObject, by: FieldWriter, owners: list[Owner], force: bool) -> JsonObject:
    """The merged object with its owners. What the manager owned before and does not name now goes, unless others own
    it."""
    root = _root(wanted, by)
    wanted = _telling(wanted, root)
    me = Owner(by.manager, "Apply", by.api_version, by.subresource, by.time, by.counted(_leaves(wanted, root)))
    _check_storable(me.paths)
    last = next((owner for owner in owners if owner.identity == me.identity), None)
    others = [owner for owner in owners if owner.identity != me.identity]
    new = _merged(bare(live), wanted, root)
    if last is not None:
        new = _pruned(new, last.paths, me.paths.union(*(owner.paths for owner in others)), root)
    difference = _difference(bare(live), new, root, by)
    others = _yielding(others, difference, force, _allowed(live, by))
    if last is not None and not difference:
        me = replace(me, time=last.time)
    return with_owners(_with_last_applied(new, wanted, by), [*others, me.without(_UNOWNED)])


def _check_storable(paths: Paths) -> None:
    """Refuse what has so many fields that who owns them cannot be stored: each takes its key, and `"":{},` around it.

    This is known after a quarter of the work that a large configuration takes.
    """
    if sum(len(path[-1]) + _AROUND_KEY for path in paths) > MAX_OBJECT_BYTES:
        raise errors.object_too_large()


def _yielding(others: list[Owner], difference: "Difference", force: bool, allowed: Paths) -> list[Owner]:
    """The other owners, without the fields that changed or went; to change what they own takes force."""
    disputed = [(owner, path) for owner in others for path in sorted((owner.paths & difference.changed) - allowed)]
    if disputed and not force:
        raise _conflict(disputed)
    gone = difference.changed | difference.removed
    return [owner.without(gone) for owner in others]


def _conflict(disputed: list[tuple[Owner, Path]]) -> errors.ApiError:
    """The refusal. It counts all conflicts and lists the first of them."""
    lines = sorted((str(owner), path_text(path)) for owner, path in disputed[:_MOST_TOLD])
    causes = [errors.Cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in lines]
    if len(disputed) == 1:
        return errors.apply_conflict(
            f"Apply failed with 1 conflict: conflict with {lines[0][0]}: {lines[0][1]}", causes
        )
    told = []
    for owner, disputes in groupby(lines, key=itemgetter(0)):
        told += [f"conflicts with {owner}:", *(f"- {path}" for _, path in disputes)]
    return errors.apply_conflict(f"Apply failed with {len(disputed)} conflicts: " + "\n".join(told), causes)


# The way over from client-side apply


def _allowed(live: JsonObject, by: FieldWriter) -> Paths:
    """The fields that kubectl may take without force: those that still have the values that its client-side apply set."""
    try:
        last = json.loads(_annotations(live).get(LAST_APPLIED, "")) if by.manager == "kubectl" else None
    except (ValueError, TypeError):
        return frozenset()
    if not isinstance(last, dict) or last.get("apiVersion") != by.api_version:
        return frozenset()
    difference = _difference(last, bare(live), _root(live, by), by)
    return frozenset(_leaves(last, _root(live, by))) - difference.changed - difference.removed


def _with_last_applied(new: JsonObject, wanted: JsonObject, by: FieldWriter) -> JsonObject:
    """The annotation of client-side apply is kept up to date where there is one, so that users can go back."""
    if by.manager != "kubectl" or not _annotations(new).get(LAST_APPLIED):
        return new
    told = {key: value for key, value in _annotations(wanted).items() if key != LAST_APPLIED}
    metadata = {key: value for key, value in metadata_of(wanted).items() if key != "annotations"}
    metadata |= {"annotations": told} if told else {}
    annotations = {**_annotations(new), LAST_APPLIED: compact({**wanted, "metadata": metadata}) + "\n"}
    return {**new, "metadata": {**new["metadata"], "annotations": annotations}}


# Objects


def _merged(live: Any, wanted: Any, place: MergePlace) -> Any:
    """The live value with the wanted one merged in. A null that is wanted is not there afterwards."""
    if isinstance(wanted, dict) and place.parts(wanted) is not None:
        known = live if isinstance(live, dict) else {}
        merged = {key: _merged(known.get(key), value, place.at(key)) for key, value in wanted.items()}
        return {key: value for key, value in {**known, **merged}.items() if wanted.get(key, "") is not None}
    if isinstance(wanted, list) and place.is_keyed:
        return _merged_items(live if isinstance(live, list) else [], wanted, place)
    return wanted


def _merged_items(live: list[Any], wanted: list[Any], place: MergePlace) -> list[Any]:
    """Items in the order in which they are wanted; others stay before the items that they stood before."""
    pairs = [(place.key(item), item) for item in live]
    known = dict(reversed(pairs))
    items = dict(zip(_wanted_keys(wanted, place), wanted, strict=True))
    waiting, shared = pairs[::-1], [key for key in items if key in known][::-1]
    result = []
    for key, item in items.items():
        while waiting and waiting[-1][0] not in shared[-1:]:
            other, left = waiting.pop()
            result += [left] if other not in items else []
        result.append(_merged(known.get(key), item, place.inside(key)))
        if shared[-1:] == [key]:
            shared.pop()
    return result + [item for key, item in reversed(waiting) if key not in items]


def _wanted_keys(wanted: list[Any], place: MergePlace) -> list[str]:
    """The key of each item of a list that is applied. Raises 400 for an item without one, and for two with the same."""
    keys: dict[str, None] = {}
    for i, item in enumerate(wanted):
        key = place.key(item)
        if key is None:
            raise _unfit(place, f"element {i}: associative list has an element that omits all key fields")
        if key in keys:
            raise _unfit(place, f"duplicate entries for key {path_text((key,))}")
        keys[key] = None
    return list(keys)


def _unfit(place: MergePlace, fault: str) -> errors.ApiError:
    return errors.bad_request(f"failed to create typed patch object: {path_text(place.path)}: {fault}")


def _leaves(value: object, place: MergePlace) -> Iterator[Path]:
    """The paths that a manager owns by applying this: values at the ends, empty maps, and items of lists. Maps and lists
    around them it does not own, so that others can add to them."""
    parts = place.parts(value)
    if parts is None or value == {} or place.is_item:
        yield place.path
    for key, part in (parts or {}).items():
        yield from _leaves(part, place.inside(key))


def _pruned(value: JsonObject, given_up: Paths, owned: Paths, root: MergePlace) -> JsonObject:
    """The value without the fields that the manager once owned and no manager owns any more.

    A field goes with all it holds if no manager owns anything in it: defaults have no owner and must not stay behind.
    """
    fields = {path[:length] for path in given_up for length in range(1, len(path)) if path[length - 1][:2] == "f:"}
    doomed = (given_up | fields) - {path[:length] for path in owned for length in range(1, len(path) + 1)}
    around = {path[:length] for path in doomed for length in range(len(path))}
    left = _Pruning(frozenset(doomed), frozenset(around), owned).left(value, root)
    return left if isinstance(left, dict) else {}


@dataclass(frozen=True, slots=True)
class _Pruning:
    """One walk that removes fields. `doomed` go; what is not in `around` holds nothing doomed and is kept as it is."""

    doomed: Paths
    around: Paths
    """Containers of doomed fields; all else is left alone."""
    owned: Paths

    def left(self, value: Any, place: MergePlace) -> Any:
        """The rest of a value. A container that this leaves empty goes too, unless a manager owns it as empty."""
        if place.path in self.doomed:
            return _ABSENT
        parts = place.parts(value) if place.path in self.around else None
        if not parts:
            return value
        left = {key.removeprefix("f:"): self.left(part, place.inside(key)) for key, part in parts.items()}
        kept = {key: part for key, part in left.items() if part is not _ABSENT}
        if not kept and place.path not in self.owned:
            return _ABSENT
        return kept if isinstance(value, dict) else list(kept.values())


@dataclass(slots=True)
class Difference:
    """The fields in which two objects differ; one that came or went is listed along with all that it holds."""

    changed: Paths
    """Added or modified."""
    removed: Paths

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def _difference(old: Any, new: Any, root: MergePlace, by: FieldWriter) -> Difference:
    """How an object changed, as far as the writer can change it."""
    before = _fields_by_path(old, root, {})
    after = _fields_by_path(new, root, {})
    changed = (path for path, value in after.items() if path not in before or _is_modified(before[path], value))
    return Difference(by.counted(changed), by.counted(before.keys() - after.keys()))


def _fields_by_path(value: Any, place: MergePlace, found: dict[Path, Any]) -> dict[Path, Any]:
    """Everything in a value by its path, the value itself included: at the ends the values, around them _PARTED."""
    parts = place.parts(value)
    found[place.path] = _PARTED if parts else value
    for key, part in (parts or {}).items():
        if isinstance(part, dict | list):
            _fields_by_path(part, place.inside(key), found)
        else:
            found[*place.path, key] = part
    return found


def _is_modified(old: Any, new: Any) -> bool:
    """Whether a field that was there and is there has another value. What has parts differs in those."""
    return old is not _PARTED and new is not _PARTED and not equal(old, new)


def _root(item: JsonObject, by: FieldWriter) -> MergePlace:
    kind = str(item.get("kind", ""))
    return root_place(kind, by.api_version) if by.schema is None else CustomPlace(ANYTHING, schema=by.schema)


def _annotations(item: JsonObject) -> JsonObject:
    annotations = metadata_of(item).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def _unwritten(item: JsonObject) -> JsonObject:
    """The object that a new one is compared with. Parity: its outermost parts count as present, so that no writer owns
    those."""
    return {key: {} for key in ("metadata", "spec", "status") if key in item}


def _first_owner(live: JsonObject, by: FieldWriter) -> Owner:
    """The owner of all that an object had when it was applied to for the first time."""
    paths = _difference(_unwritten(live), bare(live), _root(live, by), by).changed - _UNOWNED
    return Owner(BEFORE_FIRST_APPLY, "Update", by.api_version, "", by.time, frozenset(paths))
