"""Names of media types, and what patches are sent as."""

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


def media_type(content_type: str) -> str:
    """Without its settings: `application/json; charset=utf-8` is JSON."""
    return content_type.partition(";")[0].strip().lower()
