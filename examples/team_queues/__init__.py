"""TeamQueues: fair shares of a cluster for teams, with quotas that can be lent, borrowed and reclaimed.

    mooring simulate examples/team_queues/cluster.yaml --arrivals examples/team_queues/day.yaml \\
        --plugin examples/team_queues --config examples/team_queues/config.yaml

docs/guides/queues-for-teams.md describes it. The modules: `teams` has the arguments, `usage` what teams have on nodes,
`units` which pods wait together, `ledger` whom teams may add, `reclaim` who gives quota back, `plugin` the extension points.
"""

from .plugin import TeamQueues

__all__ = ["TeamQueues"]
