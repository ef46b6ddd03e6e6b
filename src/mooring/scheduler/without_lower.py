"""The cluster on which a pod group is tried without the pods of lower priority, with cache and runners of its own. It is kept
from search to search."""

from collections.abc import Sequence

from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.cluster.lower_pods_away import LOWEST_PRIORITY, LowerPodsAway
from mooring.framework.attempts.attempt import Attempt
from mooring.framework.attempts.runner import Runner
from mooring.framework.kept.kept_answers import KeptAnswers
from mooring.framework.kept.prepared import CrowdedBook
from mooring.model.pod import Pod

_LIMIT_BYTES = 8 << 20
"""Limit of the answers that runners keep about the fork: at 5,000 nodes that is 400 shapes, and at 100,000 nodes 40."""


class WithoutLower:
    """A fork of the cluster, made when it is first asked for."""

    def __init__(self) -> None:
        self._away: LowerPodsAway | None = None
        self._runners: dict[str, RunnerOnFork] = {}
        self._cache: Cache | None = None
        self._lacks_pods = False
        """Whether single pods have left the fork."""

    def settle(self, cluster: Cluster, priority: int | None, pods: Sequence[Pod] = ()) -> Cluster:
        """The cluster as it is now, without the pods below this priority and without these pods. A fork that lacks single
        pods is not kept: the next search makes another one."""
        away, least = self._away, LOWEST_PRIORITY if priority is None else priority
        if away is None or self._lacks_pods or not away.follow(least):
            self.drop()
            away = LowerPodsAway(cluster)
            away.follow(least)
            self._away, self._cache = away, Cache(away.cluster)
        nodes = away.cluster.nodes
        for pod in pods:
            if nodes.row_of_pod(pod.id) is not None:
                nodes.displace(pod.id)
        self._lacks_pods = bool(pods)
        return away.cluster

    @property
    def cache(self) -> Cache:
        """The cache of the fork."""
        assert self._cache is not None, "`settle` comes first"
        return self._cache

    def runner(self, original: Runner) -> Runner:
        """The runner of the same profile for the fork."""
        assert self._away is not None, "`settle` comes first"
        name = original.profile.scheduler_name
        if name not in self._runners:
            self._runners[name] = RunnerOnFork(original, self._away)
        return self._runners[name]

    def drop(self) -> None:
        """Let go of the fork: something failed halfway, and the next search makes another one."""
        self._away, self._cache, self._lacks_pods = None, None, False
        self._runners.clear()


class RunnerOnFork(Runner):
    """Opens attempts on a fork that is kept, and keeps answers about it."""

    def __init__(self, original: Runner, away: LowerPodsAway) -> None:
        nodes = away.cluster.nodes
        super().__init__(original.profile, original.caller, original.cursor, KeptAnswers(_LIMIT_BYTES, nodes))
        self.crowded = CrowdedBook(nodes)
        self._away = away

    def open(self, pod: Pod, cluster: Cluster, seed: int = 0) -> Attempt:
        self._away.pass_on_touches()
        return super().open(pod, cluster, seed)
