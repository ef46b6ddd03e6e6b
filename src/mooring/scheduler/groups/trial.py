"""The trial of a pod group: members are decided on one after another, each without the room of those before it.

The room stays held until the trial is over. Then the group goes to its nodes, or all of it is given back.
"""

import msgspec

from mooring.cluster.nodes.table import ClusterError
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import GROUP_TRIAL
from mooring.queue.entry import QueuedPod
from mooring.scheduler.bind import ask_permits, back_out, hold
from mooring.scheduler.core import Core
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.extender_attempt import extenders_for
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, error
from mooring.scheduler.post_filter import PostFilterResult, no_fit, post_filter
from mooring.scheduler.under_way import Binding


class Member(msgspec.Struct):
    """A member of the group, and what came of it in the trial."""

    entry: QueuedPod
    seed: int
    """Breaks ties among nodes of equal score, as the number of the attempt does for a single pod."""
    decision: Decision | None = None
    """None: it was not tried, because another member failed with an error before."""
    room: PostFilterResult | None = None
    failure: AttemptFailure | None = None
    """Why it cannot go, or cannot go before its victims have left."""
    binding: Binding | None = None
    """The room that is held for it."""
    node: str | None = None
    """The node that was found for it, also after its room was given back."""
    promised: str | None = None
    """The node that it was nominated to before."""
    is_permitted: bool = False
    """Permit let it go without a wait. Gang plugins make members wait until the minimum is reached."""

    @property
    def needs_preemption(self) -> bool:
        """Whether it has a node, but only once victims have left."""
        return self.node is not None and self.failure is not None

    @property
    def has_error(self) -> bool:
        return self.failure is not None and self.failure.reason == SCHEDULER_ERROR


class GroupTrial(msgspec.Struct):
    """The members in the order in which they are tried."""

    core: Core
    runner: Runner
    members: list[Member] = msgspec.field(default_factory=list)
    options: DecideOptions | None = None
    """How members are decided on, and within which nodes; None: as the scheduler decides, on all nodes."""
    makes_room: bool = True
    """Whether PostFilter is asked about members that fit nowhere."""
    refusal: AttemptFailure | None = None
    """Why the group as a whole does not go, if more is to be said about it than that it is unschedulable."""

    @property
    def error(self) -> AttemptFailure | None:
        """The error that ended the trial."""
        return next((member.failure for member in self.members if member.has_error), None)

    @property
    def is_feasible(self) -> bool:
        """Whether enough members fit: then Permit has let at least one of them go."""
        return self.error is None and any(member.is_permitted for member in self.members)

    @property
    def needs_preemption(self) -> bool:
        return any(member.needs_preemption for member in self.members)

    @property
    def held_count(self) -> int:
        """How many members have a node."""
        return sum(member.node is not None for member in self.members)

    def steps(self) -> Steps[None]:
        """Try the members in order. A rejected member is passed over: the others may still reach the minimum. An
        error ends the trial."""
        for member in self.members:
            yield from self._decide(member)
            chosen = member.decision.node if isinstance(member.decision, Placement) else ""
            self.core.observer.decided(member.entry, chosen)
            self._hold(member)
            if member.has_error:
                return

    def give_back(self) -> None:
        """Release all room, in reverse order, and restore nominations that the trial deleted."""
        for member in reversed(self.members):
            if member.binding is not None:
                self._release(member, member.binding)

    def _decide(self, member: Member) -> Steps[None]:
        """Decide on one member with the room of the others taken; if it fits nowhere, ask PostFilter."""
        core, pod = self.core, member.entry.pod
        interested = extenders_for(core, pod)
        member.decision = yield from core.deciding(
            self.runner, pod, core.cluster, self.options or core.options, member.seed, interested
        )
        if isinstance(member.decision, NoFit) and self.makes_room:
            member.room = yield from post_filter(self.runner, member.decision, interested)

    def hold_again(self) -> None:
        """Take the room once more that was found and given back. Parity: members that no longer get it fail alone."""
        for member in self.members:
            if member.node is not None and isinstance(member.decision, NoFit):
                self._hold_promised(member, member.decision, member.node)
            elif member.node is not None and isinstance(member.decision, Placement):
                self._hold_found(member, member.decision)

    def _hold(self, member: Member) -> None:
        """Take the room that was found, so that the members that follow do without it; then ask Permit."""
        member.promised = self.core.queue.nominations.node_of(member.entry.uid)
        decision = member.decision
        if isinstance(decision, Placement):
            self._hold_found(member, decision)
        elif isinstance(decision, NoFit):
            member.failure = no_fit(self.core, decision, member.room)
            if member.failure.nominate and decision.failure is not None:
                self._hold_promised(member, decision, member.failure.nominate)
        else:
            assert isinstance(decision, DecisionError)
            member.failure = error(decision.error)
        if member.binding is not None:
            self._ask_permits(member, member.binding)

    def _hold_found(self, member: Member, decision: Placement) -> None:
        """Hold the room on the node that was chosen; the member fails if it cannot be held."""
        assert decision.context is not None, "a placement comes with its context"
        held = hold(self.core, member.entry, self.runner, decision.context, decision.node)
        if isinstance(held, AttemptFailure):
            member.failure, member.node = held, None
            self._renominate(member)
        else:
            member.binding, member.node = held, decision.node

    def _hold_promised(self, member: Member, decision: NoFit, node_name: str) -> None:
        """Take the room that preemption will free, although the victims still have it. Reserve does not run: this
        member does not go in this attempt."""
        assert decision.failure is not None
        try:
            pod = self.core.cache.assume(member.entry.pod, node_name)
        except ClusterError as fault:
            member.failure, member.node = error(str(fault)), None
            return
        self.core.queue.nominations.delete(member.entry.uid)
        member.node = pod.spec.node_name
        member.binding = Binding(member.entry, pod, self.runner, decision.failure.attempt.context, pod.spec.node_name)

    def _ask_permits(self, member: Member, binding: Binding) -> None:
        """Ask Permit under GROUP_TRIAL: plugins say what they would answer if the group went, and must not act on
        it."""
        binding.context.state.write(GROUP_TRIAL, True)
        waits = ask_permits(binding)
        binding.context.state.delete(GROUP_TRIAL)
        if isinstance(waits, AttemptFailure):
            self._release(member, binding)
            member.failure, member.node = waits, None
        else:
            member.is_permitted = not waits

    def _release(self, member: Member, binding: Binding) -> None:
        """Give back the room of one member; Unreserve runs only where Reserve did."""
        if member.needs_preemption:
            self.core.cache.forget(binding.pod)
        else:
            back_out(self.core, binding)
        member.binding = None
        self._renominate(member)

    def _renominate(self, member: Member) -> None:
        if member.promised is not None:
            self.core.queue.nominations.add(member.entry.pod, member.promised)
