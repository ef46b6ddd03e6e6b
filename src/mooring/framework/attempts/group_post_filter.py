"""PodGroupPostFilter: how a pod group that does not fit makes room for itself, as one. Gate WorkloadAwarePreemption.

A plugin that extends this point is a PostFilter plugin as well; profiles do not list it a second time. Its answer is a
search: a generator that asks the scheduler whether the group fits after some pods have left, and ends with the victims.
"""

from abc import abstractmethod
from collections.abc import Generator

import msgspec

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.rejected_attempt import RejectedAttempt
from mooring.framework.contract.points import PostFilterPlugin
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

UNSCHEDULABLE_GROUP = "pod group is unschedulable"
"""Upstream's words: they end up in conditions of pods and pod groups, alone or with more after them."""


class GroupFitError(msgspec.Struct, frozen=True):
    """A pod group of which not enough members fit."""

    group: PodGroup
    members: tuple[Pod, ...]
    """The members that were tried, in this order."""
    cluster: Cluster
    enough: int | None = None
    """How many of them have to find a node, where that is all that matters; None: only a trial can tell."""
    rejected: RejectedAttempt | None = None
    """The attempt of a member that fits nowhere; None: there is none, or PreFilter rejected it."""


class MovedPods(msgspec.Struct, frozen=True):
    """A question: does the group fit when these pods have left as well, and those are back?"""

    leave: tuple[Pod, ...] = ()
    come_back: tuple[Pod, ...] = ()


class GroupVictims(msgspec.Struct, frozen=True):
    """The group will fit once these pods have left, the most important first. There may be none."""

    pods: tuple[Pod, ...]


GroupSearch = Generator[MovedPods, Rejection | None, GroupVictims | Rejection]
"""Yields questions, is sent None (the group fits) or why it does not, and returns the victims or why there are none.

Pods that a question moved stay moved for the next one. The scheduler puts all of them back when the search is over.
"""


class PodGroupPostFilterPlugin(PostFilterPlugin):
    @abstractmethod
    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        """Find the pods that have to leave for a group. Others evict them."""
