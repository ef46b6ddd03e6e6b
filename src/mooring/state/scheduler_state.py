"""The state of a scheduler as a value: another one with the same configuration can go on from there, and decides alike.

What follows from objects is not in it (columns, tallies, kept answers): it is worked out again. What cannot be worked out
again is: rows and orders, which decide between nodes that are equally good; the queue with times and rejections; pods
that are assumed; the counters that seeds are drawn from.

A state can be taken only while no plugin is in the middle of something (`is_quiet`): work of PreBind, waits on Permit
and evictions are code, not values.
"""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.api.kinds import BY_STRUCT, KINDS
from mooring.cluster.pods.pod_groups import GroupName
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedEntity, QueuedGroup, QueuedPod, group_entry_key, new_entry
from mooring.scheduler.core import Core
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.under_way import Binding

_KEPT_OF_GROUP = tuple(sorted({*QueuedGroup.__struct_fields__} - {"key", "members", "root", "not_ready_yet", "alike"}))
"""Fields of the entry of a pod group that are saved, likewise."""
_KEPT = tuple(sorted({*QueuedPod.__struct_fields__} - {"began_ns", "key", "pod", "start", "uid"}))
"""Fields of a queue entry that are saved, in the order in which they are written. The other fields follow from the pod, its
gate or the current attempt, or are for metrics."""

PodNumber = int
"""The position of a pod in `SchedulerState.pods`."""


Fields = dict[str, int | bool | str | list[str] | None]


class SavedEntry(msgspec.Struct, rename="camel"):
    """A pod in the queue or in flight, or a pod group in the queue."""

    pod: PodNumber
    """-1 for a pod group."""
    fields: Fields
    root: GroupName | None = None
    """The root group of a pod group."""
    members: list["SavedEntry"] = []
    """The members of a pod group that wait."""


class SavedBinding(msgspec.Struct, rename="camel"):
    """A pod whose Bind has not been answered."""

    pod: PodNumber
    """As it is assumed."""
    uid: str
    """The uid of the queue entry of the pod. The entry is in flight."""


class SchedulerState(msgspec.Struct, rename="camel"):
    """State from which a scheduler can continue. Each pod is written once, and other fields refer to it by its
    number."""

    now_ns: int
    rows: list[str]
    """Names of nodes by row; empty where a row is free."""
    free_rows: list[int]
    unsettled_rows: list[int]
    nodes: list[Node]
    """Zone by zone, in order of arrival."""
    image_sizes: dict[str, int]
    image_lags: dict[int, dict[str, int]]
    objects: dict[str, list[msgspec.Raw]]
    """By kind, in order of arrival."""
    pods: list[Pod]
    known: list[PodNumber]
    """Pods as the watch showed them."""
    on_rows: list[list[PodNumber]]
    assumed: list[str]
    """Ids of the pods that are on a node by decision only."""
    nominated: list[tuple[PodNumber, str]]
    queue: dict[str, list[SavedEntry]]
    bindings: list[SavedBinding]
    attempts: int
    last_token: int
    search_start: int
    pre_bind_looked_ns: int
    ports: list[tuple[int, tuple[str, str, int]]] | None = None
    """Rows, and ports that are taken there; None in states of format 1: those of the pods."""


def is_quiet(scheduler: Scheduler) -> bool:
    """Whether the state can be taken: every pod waits in the queue, is on its node, or its Bind is under way."""
    core = scheduler.core
    return (
        core.extender_calls.suspension is None
        and not core.extender_calls.binders
        and not core.services.waiting.by_id
        and not core.evictions.by_preemptor
        and core.pre_bind.is_idle
        and core.cluster.storage.is_settled()
        and core.cluster.claims.is_settled()
        and all(not binding.has_waited and _is_current(core, binding) for binding in core.bindings.values())
        and len(core.bindings) == len(core.queue.in_flight)
    )


def _is_current(core: Core, binding: Binding) -> bool:
    """Whether the binding goes by the present configuration: its profile is the one that decided."""
    return core.runners.get(binding.entry.profile) is binding.runner


# ---- taking a state


class _Pods:
    """Numbers pods as they are named; a pod that was named before has its number."""

    def __init__(self) -> None:
        self.found: list[Pod] = []
        self._numbers: dict[int, PodNumber] = {}

    def number(self, pod: Pod) -> PodNumber:
        number = self._numbers.setdefault(id(pod), len(self.found))
        if number == len(self.found):
            self.found.append(pod)
        return number


def state_of(scheduler: Scheduler) -> SchedulerState:
    """The present state. The scheduler must be quiet. Objects are shared, not copied: they are values."""
    core, pods = scheduler.core, _Pods()
    table, queue = core.cluster.nodes, core.queue
    known = [pods.number(pod) for pod in core.pods.values()]
    on_rows = [[pods.number(pod) for pod in there] for there in table.pods_on]
    return SchedulerState(
        now_ns=core.clock.now_ns(),
        rows=list(table.names),
        free_rows=table.free_rows(),
        unsettled_rows=table.unsettled_rows(),
        nodes=[node for name in table.order.by_zone() if (node := table.nodes[table.row_book[name]]) is not None],
        image_sizes=table.images.sizes(),
        image_lags=table.images.lagging(),
        ports=table.ports.uses(),
        objects={},
        known=known,
        on_rows=on_rows,
        assumed=[pod.id for pod in table.pods() if core.cache.is_assumed(pod.id)],
        nominated=_nominated(core, pods),
        queue={
            place: [_saved(entry, pods) for entry in entries] for place, entries in queue.entities_by_place().items()
        },
        bindings=[SavedBinding(pods.number(each.pod), each.entry.uid) for each in core.bindings.values()],
        pods=pods.found,
        attempts=queue.attempts,
        last_token=core.outbox.last_token,
        search_start=next((runner.cursor.start for runner in core.runners.values()), 0),
        pre_bind_looked_ns=core.pre_bind.looked_ns,
    )


def other_objects(scheduler: Scheduler) -> dict[str, list[KubeObject]]:
    """The objects for `SchedulerState.objects`, not encoded yet: encoding takes long, and can be done later."""
    return {BY_STRUCT[kind].kind: list(found.values()) for kind, found in scheduler.cluster.objects.items() if found}


def _nominated(core: Core, pods: _Pods) -> list[tuple[PodNumber, str]]:
    """Nominations in the order in which they were made."""
    found = []
    for uid, node in core.queue.nominations.promised().items():
        pod = next(pod for pod in core.cluster.nominated.on(node) if pod.id == uid)
        found.append((pods.number(pod), node))
    return found


def _saved(entity: QueuedEntity, pods: _Pods) -> SavedEntry:
    if isinstance(entity, QueuedPod):
        return SavedEntry(pods.number(entity.pod), {name: getattr(entity, name) for name in _KEPT})
    values = {name: getattr(entity, name) for name in _KEPT_OF_GROUP}
    return SavedEntry(-1, values, entity.root, [_saved(entry, pods) for entry in entity.entries])


# ---- going on from a state


def restore(scheduler: Scheduler, state: SchedulerState) -> None:
    """Bring a scheduler that knows nothing into the state. Its clock must show `state.now_ns`."""
    for _ in restoring(scheduler, state):
        pass


def restoring(scheduler: Scheduler, state: SchedulerState) -> Iterator[None]:
    """Do the work of `restore` in parts of some 0.1 ms, for callers that have others to serve meanwhile."""
    core = scheduler.core
    yield from _restore_objects(core, state)
    yield from _restore_pods(core, state)
    core.outbox.last_token = state.last_token
    core.pre_bind.looked_ns = state.pre_bind_looked_ns
    for runner in core.runners.values():
        runner.cursor.start = state.search_start
    entities: dict[str, list[QueuedEntity]] = {"incomplete": []}
    for place, saved_entries in state.queue.items():
        entities[place] = [_entity(saved, state) for saved in saved_entries]
    core.queue.take_over(entities, state.attempts)
    for number, node in state.nominated:
        core.queue.nominations.add(state.pods[number], node)
    _restore_bindings(core, state, {each.uid: each for each in entities["in flight"] if isinstance(each, QueuedPod)})
    _restore_images(core, state)


def _restore_objects(core: Core, state: SchedulerState) -> Iterator[None]:
    """Put the saved objects and nodes into the cluster, one in each step. Nodes get the rows that they had before."""
    for kind, written in state.objects.items():
        decoder = msgspec.json.Decoder(KINDS[kind].struct)
        for item in written:
            core.cluster.put(decoder.decode(item))
            yield
    core.cluster.nodes.lay_out(state.rows, state.free_rows)
    for node in state.nodes:
        core.cluster.nodes.put_node(node)
        yield


def _restore_pods(core: Core, state: SchedulerState) -> Iterator[None]:
    """Pods that are known, then those on nodes; members of groups are counted on the way."""
    groups, assumed = core.cluster.groups, set(state.assumed)
    for number in state.known:
        pod = state.pods[number]
        core.pods[pod.key] = pod
        if groups is not None and (pod.spec.node_name or pod.spec.scheduler_name in core.runners):
            groups.add(pod)
    yield
    for numbers in state.on_rows:
        for number in numbers:
            pod = state.pods[number]
            if pod.id in assumed:
                core.cache.assume(pod, pod.spec.node_name)
            else:
                core.cache.confirm(pod)
        yield


def _entity(saved: SavedEntry, state: SchedulerState) -> QueuedEntity:
    if saved.root is None:
        return _entry(saved, state)
    group = QueuedGroup(saved.root, 0, group_entry_key(saved.root))
    for name in _KEPT_OF_GROUP:
        setattr(group, name, saved.fields[name])
    for member in saved.members:
        group.add(_entry(member, state))
    return group


def _entry(saved: SavedEntry, state: SchedulerState) -> QueuedPod:
    """The entry as it was. A field that a state of an older version does not have keeps its default."""
    entry = new_entry(state.pods[saved.pod], 0)
    for name in (each for each in _KEPT if each in saved.fields):
        value = saved.fields[name]
        setattr(entry, name, tuple(value) if isinstance(value, list) else value)
    return entry


def _restore_bindings(core: Core, state: SchedulerState, in_flight: Mapping[str, QueuedPod]) -> None:
    """Bindings whose Bind is under way. What plugins knew in their attempts is not needed any more."""
    for saved in state.bindings:
        pod, entry = state.pods[saved.pod], in_flight[saved.uid]
        runner = core.runners[entry.profile]
        held = core.cache.get(pod.id) or pod
        context = runner.open(entry.pod, core.cluster, core.queue.attempts).context
        core.bindings[entry.uid] = Binding(entry, held, runner, context, pod.spec.node_name)


def _restore_images(core: Core, state: SchedulerState) -> None:
    """Last: which counts of images rows see depends on when they changed, and which ports are taken on who left."""
    table = core.cluster.nodes
    if state.ports is not None:
        table.ports.take_over(state.ports)
    table.images.put_sizes(state.image_sizes)
    table.settle()
    table.images.lag(state.image_lags)
    for row in state.unsettled_rows:
        table.touches.note(row)
