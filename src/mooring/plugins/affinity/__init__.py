"""Plugins that count the pods on nodes: InterPodAffinity and PodTopologySpread, with the counting that each one needs."""
