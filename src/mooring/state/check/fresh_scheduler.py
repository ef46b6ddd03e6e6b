"""A scheduler that is built now from the objects that the watches show, and then follows the running one.

Building takes seconds on a large cluster, so it goes on in small steps while the running scheduler works. Whatever changes
meanwhile goes to both. The fresh scheduler makes no attempts, and what it wants is dropped: nothing of it is ever written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mooring.model.meta import KubeObject
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.adoption import Adoption

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
        ours, theirs = running.core, self.scheduler.core
        self._adoption = Adoption(ours.cluster, ours.cache, theirs.cluster, theirs.cache)

    def build(self) -> Iterator[None]:
        """Take in all known objects, one a step, each as it is when its turn comes. Then what is known beyond them."""
        for objects in self._known():
            for key in list(objects):
                item = objects.get(key)
                if item is not None and (type(item), item.key) not in self._taken:
                    self._take(ObjectAdded(item), item)
                    yield
        yield from self._adoption.begin()

    def follow(self, input: Input) -> None:
        """The running scheduler got an input. What was not taken yet will be, as it is by then."""
        if isinstance(input, ObjectAdded):
            self._take(input, input.item)
        elif isinstance(input, ObjectUpdated) and _place(input.new) in self._taken:
            self._take(input, input.new)
        elif isinstance(input, ObjectRemoved) and _place(input.item) in self._taken:
            self._take(input, input.item)
            self._taken.discard(_place(input.item))

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
        cluster, nodes = core.cluster, core.cluster.nodes
        parts: tuple[object, ...] = (nodes.tallies, nodes.labels, nodes.images, nodes.ports, nodes.amounts, nodes.order)
        for part in (
            *parts,
            nodes,
            cluster.storage,
            cluster.claims,
            cluster._volumes,
            cluster._floats,
            cluster,
            core.cache,
        ):
            vars(part).clear()
            yield
        core.pods.clear()
        vars(core.queue).clear()

    def _take(self, input: Input, item: KubeObject) -> None:
        """An object that cannot be taken in is reported. If the running scheduler has it, that is a difference."""
        self._taken.add(_place(item))
        try:
            self.scheduler.handle(input)
        except Exception as fault:  # one object must not end the check of all others
            self._running.core.report(f"the self-check could not take in {type(item).__name__} {item.key}", fault)


def _place(item: KubeObject) -> tuple[type[KubeObject], str]:
    return type(item), item.key
