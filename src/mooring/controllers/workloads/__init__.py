"""Controllers that own pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs; and disruption budgets."""
