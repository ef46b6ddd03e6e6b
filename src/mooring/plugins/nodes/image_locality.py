"""ImageLocality: prefers nodes that have the pod's images already, the more so the larger and more common they are."""

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Reads, Rows, ScorePlugin, Scores, reads
from mooring.model.shape import PodPart

MIB = 1024 * 1024
# Upstream's thresholds: less than 23 MiB of images scores 0, and 1000 MiB for each image scores 100. Images of
# containers, init containers and image volumes count, each as often as the pod names it.
MIN_BYTES = 23 * MIB
MAX_BYTES_PER_IMAGE = 1000 * MIB


class ImageLocality(ScorePlugin):
    """Score only: a node without the images can still pull them."""

    name = "ImageLocality"
    is_same_in_all_profiles = True

    @reads(Reads.COUNTS, PodPart.IMAGES)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """The bytes of the pod's images on the node, each scaled by the share of nodes that have the image, brought to
        0..100.

        The scaling is upstream's, against all pods piling up on the few nodes that have an image.

        Reads.COUNTS is right although the counts are about other nodes: the table shows each row the counts as of the last
        time that the row was touched (Parity: upstream's snapshot does the same), so an answer changes only when its
        row does. A node that comes or goes changes `alive_count` and voids all that is kept.
        """
        images, node_count = context.nodes.images, context.nodes.alive_count
        highest = MAX_BYTES_PER_IMAGE * len(context.shape.images)
        total = None
        for name in context.shape.images:
            counts = images.counts(name)
            if counts is None:
                continue
            spread = counts[rows] / node_count
            part = (images.size_bytes(name) * spread).astype(np.int64)
            # Clamped in each round: the sum of many large images would wrap around.
            total = np.minimum(part if total is None else total + part, highest)
        if total is None:
            return None
        if highest <= MIN_BYTES:
            return None
        return (np.clip(total, MIN_BYTES, highest) - MIN_BYTES) * 100 // (highest - MIN_BYTES)

    def score_row(self, context: SchedulingContext, row: int) -> int:
        """Score one row by the bytes of the images of the pod that its node has. Each image is scaled by the share of nodes
        that have it, to avoid that all pods go to one node."""
        images, node_count = context.nodes.images, context.nodes.alive_count
        highest = MAX_BYTES_PER_IMAGE * len(context.shape.images)
        total = 0
        for name in context.shape.images:
            counts = images.counts(name)
            if counts is not None:
                total = min(total + int(images.size_bytes(name) * (counts.item(row) / node_count)), highest)
        if total <= MIN_BYTES or highest <= MIN_BYTES:
            return 0
        return (total - MIN_BYTES) * 100 // (highest - MIN_BYTES)


PLUGINS = (ImageLocality,)
