"""A cluster after its scheduler has placed what it can: for manifests, whose pods no scheduler has seen yet."""

from dataclasses import replace

from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.sim.simulation import Simulation


def settled(loaded: LoadedCluster) -> LoadedCluster:
    """The cluster with its pending pods placed by a simulation, as far as they fit; victims of preemption are gone.

    Raises ConfigError, and InputError for objects that contradict each other.
    """
    simulation = Simulation(loaded.objects, loaded.config, loaded.registry, loaded.gates)
    simulation.run()
    return replace(loaded, objects=simulation.objects(), queue=None)
