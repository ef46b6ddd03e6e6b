"""IdleRacks: of several racks that can hold a pod group, take the one where most CPU stays free.

By default groups fill racks up (NodeResourcesFit scores the share in use). Try it:

    mooring simulate examples/gang/racks.yaml --plugin examples/gang/idle_racks.py --config examples/gang/idle-racks.yaml \
        --feature-gates GenericWorkload=true,TopologyAwareWorkloadScheduling=true
"""

from mooring.plugin import AnyPodGroup, PlacementView, PlainPlugin


class IdleRacks(PlainPlugin):
    name = "IdleRacks"

    def score_placement(self, group: AnyPodGroup, placement: PlacementView) -> int:
        there = sum(node.allocatable("cpu") for node in placement.nodes)
        free = sum(node.free("cpu") for node in placement.nodes)
        taken = sum(pod.shape.request.get("cpu", 0) for pod in placement.pods)
        return max(0, 100 * (free - taken) // there) if there else 0
