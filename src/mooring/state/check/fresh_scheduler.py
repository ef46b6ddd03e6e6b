"""A scheduler that is built now from the objects that the watches show, and then follows the running one.

Building takes seconds on a large cluster, so it goes on in small steps while the running scheduler works. Whatever changes
meanwhile goes to both. The fresh scheduler makes no attempts, and what it wants is dropped: nothing of it is ever written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.core import Core
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler

# ---- State that a fresh cluster cannot know from objects alone, taken over from the running one.
#
# Some state is what the scheduler is about to write (assumed pods, pending allocations, nominations). Some depends on
# the order of past events, as upstream's does: which ports a departed pod freed, on how many nodes an image was when
# a row last changed, which of two device classes came first. Comparisons look at such state apart; decisions need it
# on both sides.


class Adoption:
    """Keeps a fresh cluster in step with a running one. Objects come to both as inputs; this adds the rest."""

    def __init__(self, running: Core, fresh: Core) -> None:
        self._running, self._fresh = running.cluster, fresh.cluster
        self._caches = running.cache, fresh.cache
        self._assumed: dict[str, Pod] = {}
        """By id: pods as the running cache assumes them, where the fresh one does so too."""
        self._views: dict[tuple[str, int], Mapping[str, int]] = {}
        """By node and row: the counts of images that the fresh row was given."""
        self._images_stamp = (-1, -1, -1)
        self._tables_stamp: tuple[int, ...] = ()

    def keep_up(self) -> None:
        """Take over what changed since the last call."""
        if self._stamp() != self._tables_stamp:  # Hot: thousands of assumed pods and ports, and as a rule none changed
            self._assume_pods()
            self._free_ports()
        self._nominate()
        self._fresh.claims.adopt(self._running.claims)
        self._fresh.storage.adopt(self._running.storage)
        if self._fresh.serving_classes.adopt(self._running.serving_classes):
            self._fresh.nodes.touch_all()
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
        """Assume on the fresh side the pods that the running cache assumes, as it holds them now, and no others."""
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
        """Promise the nodes to nominated pods that the running scheduler has promised."""
        ours, theirs = self._running.nominated, self._fresh.nominated
        for pod_id in theirs.pod_ids() - ours.pod_ids():
            theirs.withdraw(pod_id)
        for pod_id in ours.pod_ids():
            node_name = ours.node_of(pod_id) or ""
            pod = ours.get(pod_id)
            if pod is not None and (theirs.get(pod_id) is not pod or theirs.node_of(pod_id) != node_name):
                theirs.promise(pod, node_name)

    def _free_ports(self) -> None:
        """Parity: of two pods of a node with the same port the first that leaves frees it."""
        ours, theirs = self._running.nodes, self._fresh.nodes
        for row, port in theirs.ports.uses():
            if not ours.ports.is_held(ours.row_book.get(theirs.names[row], -1), port):
                theirs.ports.release(row, (port,))
                theirs.touches.note(row)

    def _take_image_counts(self) -> None:
        """Sizes, and what each row believes, which is how many nodes had an image when the row last changed."""
        ours, theirs = self._running.nodes.images, self._fresh.nodes.images
        stamp = ours.views_version, ours.epoch, theirs.epoch
        if stamp == self._images_stamp:
            return
        self._images_stamp = stamp
        if theirs.put_sizes(ours.sizes()):
            self._fresh.nodes.touch_all()
        for name in self._fresh.nodes.row_book:
            self._take_view(name)

    def _take_view(self, name: str) -> None:
        """Let the fresh row of a node see the images that the running row sees."""
        nodes = self._fresh.nodes
        row = nodes.row_book[name]
        seen = self._running.nodes.images.seen_by(self._running.nodes.row_book.get(name, -1))
        if seen is not self._views.get((name, row)) and (seen or (name, row) in self._views):
            self._views[name, row] = seen
            nodes.images.see(row, seen)
            nodes.touches.note(row)


KnownObjects = Callable[[], Iterable[Mapping[Any, KubeObject]]]
"""Returns the objects that the watches show, of all kinds, under any keys. The mappings are those that the watches change."""


class FreshScheduler:
    """`build` in steps; pass every change to `follow`; call `keep_up` before looking at it."""

    def __init__(self, running: Scheduler, make: Callable[[], Scheduler], known: KnownObjects) -> None:
        """`make` builds a scheduler with the configuration of the running one."""
        self.scheduler = make()
        self._running = running
        self._known = known
        self._taken: set[tuple[type[KubeObject], str]] = set()
        """The objects that it has got."""
        self._adoption = Adoption(running.core, self.scheduler.core)

    def build(self) -> Iterator[None]:
        """Take in all known objects, one a step, each as it is when its turn comes. Then what is known beyond them."""
        for objects in self._known():
            for key in list(objects):
                item = objects.get(key)
                if item is not None and (type(item), item.key) not in self._taken:
                    self._take(ObjectAdded(item), item)
                    yield
        yield from self._adoption.begin()

    def follow(self, change: Input) -> None:
        """The running scheduler got an input. What was not taken yet will be, as it is by then."""
        if isinstance(change, ObjectAdded):
            self._take(change, change.item)
        elif isinstance(change, ObjectUpdated) and _place(change.new) in self._taken:
            self._take(change, change.new)
        elif isinstance(change, ObjectRemoved) and _place(change.item) in self._taken:
            self._take(change, change.item)
            self._taken.discard(_place(change.item))

    def keep_up(self) -> None:
        """Take over what the running scheduler knows beyond objects."""
        self.scheduler.take_intents()
        self.scheduler.core.outbox.take_activations()
        self._adoption.keep_up()

    def discard(self) -> Iterator[None]:
        """Take the scheduler apart, step by step. It cannot be used any more.

        Hot: its parts refer to each other in circles. For 5,000 nodes and 30,000 pods the garbage collector would stop the
        process for 130 ms at some later time; what it finds after this takes a tenth of that.
        """
        core = self.scheduler.core
        for runner in core.runners.values():
            runner.kept.clear()
            runner.crowded.clear()
            yield
        self._known, self._taken = tuple, set()
        yield from core.cluster.take_apart()
        vars(core.cache).clear()
        core.pods.clear()
        vars(core.queue).clear()

    def _take(self, change: Input, item: KubeObject) -> None:
        """An object that cannot be taken in is reported. If the running scheduler has it, that is a difference."""
        self._taken.add(_place(item))
        try:
            self.scheduler.handle(change)
        except Exception as fault:  # one object must not end the check of all others
            self._running.core.report(f"the self-check could not take in {type(item).__name__} {item.key}", fault)


def _place(item: KubeObject) -> tuple[type[KubeObject], str]:
    return type(item), item.key
