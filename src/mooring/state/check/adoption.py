"""What a fresh cluster cannot know from objects alone, taken over from the running one.

Some state is what the scheduler is about to write (assumed pods, pending allocations, nominations). Some depends on the order
of past events, as upstream's does: which ports a departed pod freed, on how many nodes an image was when a row last changed,
which of two device classes came first. Comparisons look at such state apart; decisions need it on both sides.
"""

from collections.abc import Iterator

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.cache import Cache
from mooring.model.pod import Pod

_NOTHING: dict[str, int] = {}
"""What a row sees of images that has none."""


class Adoption:
    """Keeps a fresh cluster in step with a running one. Objects come to both as inputs; this adds the rest."""

    def __init__(self, running: Cluster, running_cache: Cache, fresh: Cluster, fresh_cache: Cache) -> None:
        self._running, self._fresh = running, fresh
        self._caches = running_cache, fresh_cache
        self._assumed: dict[str, Pod] = {}
        """By id: pods as the running cache assumes them, where the fresh one does so too."""
        self._views: dict[tuple[str, int], dict[str, int]] = {}
        """By node and row: the counts of images that the fresh row was given."""
        self._images_stamp = (-1, -1, -1)
        self._tables_stamp: tuple[int, ...] = ()

    def keep_up(self) -> None:
        """Take over what changed since the last call."""
        if self._stamp() != self._tables_stamp:  # Hot: thousands of assumed pods and ports, and as a rule none changed
            self._assume_pods()
            self._free_ports()
        self._nominate()
        self._take_claims()
        self._take_storage()
        self._take_classes()
        self._take_image_counts()
        self._tables_stamp = self._stamp()

    def begin(self) -> Iterator[None]:
        """The first time, step by step: on a large cluster it takes long. `keep_up` follows."""
        for name in list(self._fresh.nodes.row_book):
            if name in self._fresh.nodes.row_book:
                self._take_view(name)
            yield
        for pod_id in self._caches[0].assumed_ids():
            self._assume(pod_id)
            yield

    def _stamp(self) -> tuple[int, ...]:
        """Changes when a pod comes to a row of either table, leaves it, or is confirmed there."""
        logs = (log for nodes in (self._running.nodes, self._fresh.nodes) for log in (nodes.touches, nodes.pod_touches))
        return tuple(log.end for log in logs)

    def _assume_pods(self) -> None:
        ours, theirs = self._caches
        for pod_id in list(self._assumed):
            if not ours.is_assumed(pod_id) or ours.get(pod_id) is not self._assumed[pod_id]:
                del self._assumed[pod_id]
        for pod_id in theirs.assumed_ids() - self._assumed.keys():
            held = theirs.get(pod_id)
            if held is not None:
                theirs.forget(held)
        for pod_id in ours.assumed_ids():
            self._assume(pod_id)

    def _assume(self, pod_id: str) -> None:
        ours, theirs = self._caches
        pod = ours.get(pod_id)
        if pod is not None and ours.is_assumed(pod_id) and theirs.get(pod_id) is None:
            theirs.assume(pod, pod.spec.node_name)
            self._assumed[pod_id] = pod

    def _nominate(self) -> None:
        ours, theirs = self._running.nominated, self._fresh.nominated
        for pod_id in theirs.pod_ids() - ours.pod_ids():
            theirs.withdraw(pod_id)
        for pod_id in ours.pod_ids():
            node_name = ours.node_of(pod_id) or ""
            pod = ours.get(pod_id)
            if pod is not None and (theirs.get(pod_id) is not pod or theirs.node_of(pod_id) != node_name):
                theirs.promise(pod, node_name)

    def _take_claims(self) -> None:
        self._fresh.claims.adopt(self._running.claims)

    def _take_storage(self) -> None:
        ours, theirs = self._running.storage, self._fresh.storage
        for name in theirs._assumed_volumes.adopt(ours._assumed_volumes):
            theirs._place(name)
        if theirs._assumed_claims.adopt(ours._assumed_claims):
            theirs.version += 1

    def _take_classes(self) -> None:
        ours, theirs = self._running.serving_classes, self._fresh.serving_classes
        if ours._serving != theirs._serving:
            theirs._serving = dict(ours._serving)
            self._fresh.nodes.touch_all()

    def _free_ports(self) -> None:
        """Parity: of two pods of a node with the same port the first that leaves frees it."""
        ours, theirs = self._running.nodes, self._fresh.nodes
        for (protocol, port), rows in list(theirs.ports._used.items()):
            held = ours.ports._used.get((protocol, port), {})
            for row, addresses in list(rows.items()):
                freed = addresses - held.get(ours.row_book.get(theirs.names[row], -1), set())
                if freed:
                    theirs.ports.release(row, [(address, protocol, port) for address in freed])
                    theirs.touches.note(row)

    def _take_image_counts(self) -> None:
        """Sizes, and what each row believes, which is how many nodes had an image when the row last changed."""
        ours, theirs = self._running.nodes.images, self._fresh.nodes.images
        stamp = ours.views_version, ours._epoch, theirs._epoch
        if stamp == self._images_stamp:
            return
        self._images_stamp = stamp
        for name, image in theirs._images.items():
            known = ours._images.get(name)
            if known is not None and known.size_bytes != image.size_bytes:
                image.size_bytes = known.size_bytes
                self._fresh.nodes.touch_all()
        for name in self._fresh.nodes.row_book:
            self._take_view(name)

    def _take_view(self, name: str) -> None:
        """Let the fresh row of a node see the images that the running row sees."""
        nodes = self._fresh.nodes
        row = nodes.row_book[name]
        seen = self._running.nodes.images._seen.get(self._running.nodes.row_book.get(name, -1), _NOTHING)
        if self._views.get((name, row), _NOTHING) is not seen:
            self._views[name, row] = seen
            nodes.images._see(row, seen)
            nodes.touches.note(row)
