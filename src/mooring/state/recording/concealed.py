"""Objects as they may be written to a recording: annotations that neither Mooring nor a plugin reads are replaced by digests.

Annotations are free text, and people put secrets into them. That one changed may wake pods, so a digest takes its place;
it is keyed with a random number that is written nowhere. Other parts that hold secrets (environment, commands) are not
decoded at all.
"""

import hashlib
import secrets
from functools import lru_cache
from typing import TypeVar

import msgspec

from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.model.meta import KubeObject
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_PLUGINS, SELECTED_NODE
from mooring.plugins.devices.claims import MARK as EXTENDED_CLAIM
from mooring.rules.persistent_volumes import DEFAULT_CLASS
from mooring.rules.pod_claims import POD_CLAIM_NAME

READ_ANNOTATIONS = AnnotationKeys.of(
    (
        *(CLASS_ANNOTATION, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, DEFAULT_CLASS),
        *(MIGRATED_PLUGINS, POD_CLAIM_NAME, EXTENDED_CLAIM, "mooring.dev/*"),
    )
)
"""The annotations that code of Mooring reads: decisions, and simulated nodes and pods. Plugins of users declare others."""

T = TypeVar("T", bound=KubeObject)


LONGEST_KEPT = 512
DIGESTS_KEPT = 2048
"""Texts up to this length have their digests kept, and so many of them: a mebibyte at most."""


class Concealer:
    """Replaces all annotations that nothing reads. `kept` are those that plugins read, or that the user wants to keep."""

    def __init__(self, kept: AnnotationKeys | None = None) -> None:
        read = READ_ANNOTATIONS | (kept or AnnotationKeys())
        self._exact, self._prefixes = read.exact, read.prefixes
        self._key = secrets.token_bytes(16)
        self._kept_digest = lru_cache(DIGESTS_KEPT)(self._digest)
        """Hot: pods of one template share most annotations. A digest takes 1.6 µs, to look it up 0.15 µs."""

    def _digest(self, text: str) -> str:
        return hashlib.blake2s(text.encode("utf-8", "replace"), key=self._key, digest_size=6).hexdigest()

    def __call__(self, item: T) -> T:
        annotations = item.metadata.annotations
        if not annotations:
            return item
        exact, prefixes = self._exact, self._prefixes
        shown = {
            name: text
            if name in exact or name.startswith(prefixes)
            else (self._kept_digest if len(text) <= LONGEST_KEPT else self._digest)(text)
            for name, text in annotations.items()
        }
        metadata = msgspec.structs.replace(item.metadata, annotations=shown)
        return msgspec.structs.replace(item, metadata=metadata)
