"""ImageLocality: prefers nodes that have the pod's images already, the more so the larger and more common they are."""

import numpy as np

from mooring.framework.context import SchedulingContext
from mooring.framework.points import Reads, Rows, ScorePlugin, Scores, reads
from mooring.model.shape import PodPart

MIB = 1024 * 1024
MIN_BYTES = 23 * MIB
MAX_BYTES_PER_CONTAINER = 1000 * MIB


class ImageLocality(ScorePlugin):
    name = "ImageLocality"

    @reads(Reads.ROW, PodPart.IMAGES)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        images, node_count = context.nodes.images, context.nodes.alive_count
        highest = MAX_BYTES_PER_CONTAINER * context.shape.containers_count
        total = None
        for name in context.shape.images:
            counts = images.counts(name)
            if counts is None:
                continue
            spread = counts[rows] / node_count
            part = (images.size_bytes(name) * spread).astype(np.int64)
            total = np.minimum(
                part if total is None else total + part, highest
            )  # or else many large images wrap around
        if total is None:
            return None
        if highest <= MIN_BYTES:
            return None
        return (np.clip(total, MIN_BYTES, highest) - MIN_BYTES) * 100 // (highest - MIN_BYTES)
