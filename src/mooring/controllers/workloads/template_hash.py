"""A short name for what a pod template says: equal templates have equal names, in every run."""

import hashlib
import json

from mooring.model.json_objects import JsonObject

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, and no digits that look like them: no name says something by accident."""


def template_hash(template: JsonObject, collisions: int = 0) -> str:
    """Ten letters. `collisions` gives another name to the same template, where one turned out to be taken."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    digest = hashlib.blake2b(f"{text}{collisions or ''}".encode(), digest_size=10).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)
