"""What each feature gate of kube-scheduler v1.37 does there, what it does in Mooring, and the test that shows it."""

from typing import NamedTuple

AS_UPSTREAM = "the same"
ALWAYS_ON = "always on"
NO_NEED = "not needed"
NOT_YET = "not yet"


class GateNote(NamedTuple):
    """One row of the page about feature gates."""

    effect: str
    """What the gate switches in kube-scheduler; for gates of the embedded cluster, in the API server."""
    ours: str
    test: str = ""
    """Below `tests`; empty where Mooring does nothing with the gate."""


_CLIENT = "how client-go keeps its caches; no decision depends on it"
_TRANSPORT = "how client-go talks to the API server; no decision depends on it"
_LOGS = "which options and forms of logs there are"

GATE_NOTES: dict[str, GateNote] = {
    "AtomicFIFO": GateNote(_CLIENT, NO_NEED),
    "ClearingNominatedNodeNameAfterBinding": GateNote(
        "a pod loses status.nominatedNodeName when it is bound", AS_UPSTREAM, "apiserver/test_gated_fields.py"
    ),
    "ClientsAllowCARotation": GateNote(_TRANSPORT, NO_NEED),
    "ClientsAllowCBOR": GateNote(_TRANSPORT, NO_NEED),
    "ClientsAllowTLSCacheGC": GateNote(_TRANSPORT, NO_NEED),
    "ClientsPreferCBOR": GateNote(_TRANSPORT, NO_NEED),
    "ComponentFlagz": GateNote("the page /flagz", AS_UPSTREAM, "serve/test_pages.py"),
    "ComponentStatusz": GateNote("the page /statusz", AS_UPSTREAM, "serve/test_pages.py"),
    "ContextualLogging": GateNote(_LOGS, NO_NEED),
    "CoordinatedLeaderElection": GateNote(
        "the API server picks the leader from LeaseCandidates",
        "the same; the candidate is read every retry period instead of watched. `mooring up` picks leaders",
        "serve/test_coordinated_election.py",
    ),
    "CompositePodGroup": GateNote(
        "CompositePodGroups are watched, and trees of groups are scheduled as one",
        AS_UPSTREAM,
        "scheduler/test_composite_groups.py",
    ),
    "DRAAdminAccess": GateNote(
        "requests with admin access ignore other claims", ALWAYS_ON, "plugins/test_device_search.py"
    ),
    "DRAConsumableCapacity": GateNote(
        "shares of a device, and its capacity, for several claims", AS_UPSTREAM, "plugins/test_device_search.py"
    ),
    "DRADeviceBindingConditions": GateNote(
        "binding waits for conditions of devices", AS_UPSTREAM, "plugins/test_dynamic_resources.py"
    ),
    "DRADerivedAttributes": GateNote(
        "requests compute attributes of devices for constraints", AS_UPSTREAM, "plugins/test_device_v137.py"
    ),
    "DRADeviceCompatibilityGroups": GateNote(
        "only devices of one group share a counter set", AS_UPSTREAM, "plugins/test_device_v137.py"
    ),
    "DRADeviceTaintRules": GateNote("rules taint devices", AS_UPSTREAM, "scheduler/test_device_taint_rules.py"),
    "DRADeviceTaints": GateNote("taints of devices keep claims away", AS_UPSTREAM, "plugins/test_device_search.py"),
    "DRAExtendedResource": GateNote(
        "devices serve extended resources, and are scored where a profile lists such a resource",
        ALWAYS_ON,
        "plugins/test_dynamic_resources_extended.py",
    ),
    "DRAFractionalCapacityRange": GateNote(
        "ranges of capacity with steps below one unit", AS_UPSTREAM, "plugins/test_device_capacity.py"
    ),
    "DRAListTypeAttributes": GateNote(
        "attributes of devices that are lists", AS_UPSTREAM, "plugins/test_device_list_attributes.py"
    ),
    "DRANodeAllocatableResources": GateNote(
        "devices take cpu and memory of their node", AS_UPSTREAM, "scheduler/test_device_node_resources.py"
    ),
    "DRAOptionalNodeOperations": GateNote(
        "devices that need no preparation by the kubelet", AS_UPSTREAM, "plugins/test_device_v137.py"
    ),
    "DRAPartitionableDevices": GateNote("devices that share counters", AS_UPSTREAM, "plugins/test_device_search.py"),
    "DRAPrioritizedList": GateNote("the first of several subrequests", ALWAYS_ON, "plugins/test_dynamic_resources.py"),
    "DRAResourceClaimDeviceStatus": GateNote(
        "conditions of devices are read from claims, for binding conditions",
        ALWAYS_ON,
        "plugins/test_device_allocation.py",
    ),
    "DRAResourceClaimGranularStatusAuthorization": GateNote(
        "nothing in code; roles need resourceclaims/binding", "the roles have it", "deploy/test_rbac.py"
    ),
    "DRASchedulerFilterTimeout": GateNote(
        "filterTimeout of DynamicResources", AS_UPSTREAM, "framework/test_config_defaults.py"
    ),
    "DRAWorkloadResourceClaims": GateNote(
        "claims of pod groups are reserved for the group", AS_UPSTREAM, "scheduler/test_group_reservations.py"
    ),
    "DynamicResourceAllocation": GateNote(
        "the plugin DynamicResources", ALWAYS_ON, "plugins/test_dynamic_resources.py"
    ),
    "GenericWorkload": GateNote(
        "PodGroups are watched, queued, scheduled and preempted as one", AS_UPSTREAM, "scheduler/test_group_attempt.py"
    ),
    "InOrderInformers": GateNote(_CLIENT, NO_NEED),
    "InOrderInformersBatchProcess": GateNote(_CLIENT, NO_NEED),
    "InPlacePodLevelResourcesVerticalScaling": GateNote(
        "a resize of the pod as a whole counts until the kubelet has done it",
        AS_UPSTREAM,
        "cluster/test_counted_pods.py",
    ),
    "InPlacePodVerticalScaling": GateNote(
        "a resize of a container counts until the kubelet has done it", ALWAYS_ON, "model/test_requests.py"
    ),
    "InPlacePodVerticalScalingSchedulerPreemption": GateNote(
        "the scheduler makes room on the node of a pod whose resize the kubelet deferred",
        AS_UPSTREAM,
        "scheduler/test_deferred_resize.py",
    ),
    "InterPodAffinityHostnameFastPath": GateNote(
        "terms with the key kubernetes.io/hostname are decided on the node itself",
        AS_UPSTREAM,
        "plugins/test_hostname_fast_path.py",
    ),
    "LoggingAlphaOptions": GateNote(_LOGS, NO_NEED),
    "LoggingBetaOptions": GateNote(_LOGS, NO_NEED),
    "MatchLabelKeysInPodTopologySpread": GateNote(
        "matchLabelKeys of spread constraints", AS_UPSTREAM, "cluster/test_counted_pods.py"
    ),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": GateNote(
        "the API server writes matchLabelKeys into the selector", AS_UPSTREAM, "apiserver/test_gated_fields.py"
    ),
    "MutablePVNodeAffinity": GateNote(
        "the node affinity of a PersistentVolume can change", AS_UPSTREAM, "apiserver/test_gated_fields.py"
    ),
    "NativeHistograms": GateNote(
        "a second form of histograms in /metrics as protobuf", AS_UPSTREAM, "kit/test_native_histograms.py"
    ),
    "NodeDeclaredFeatures": GateNote(
        "the plugin NodeDeclaredFeatures and its event", ALWAYS_ON, "plugins/test_node_declared_features.py"
    ),
    "NodeInclusionPolicyInPodTopologySpread": GateNote(
        "nodeAffinityPolicy and nodeTaintsPolicy", ALWAYS_ON, "plugins/test_pod_topology_spread.py"
    ),
    "NominatedNodeNameForExpectation": GateNote(
        "the status names the node while a binding waits", AS_UPSTREAM, "scheduler/test_gated_behaviour.py"
    ),
    "OpportunisticBatching": GateNote("the order of nodes is used again for equal pods: speed, not decisions", NO_NEED),
    "PodGroupPreemptionPolicy": GateNote(
        "the preemption policy of a PodGroup counts, and that of its pods must be the same",
        AS_UPSTREAM,
        "scheduler/test_group_preemption.py",
    ),
    "PodLevelResources": GateNote(
        "spec.resources of pods; the API server drops it without the gate", AS_UPSTREAM, "cluster/test_counted_pods.py"
    ),
    "SchedulerAsyncAPICalls": GateNote(
        "writes of statuses and bindings are queued", "always queued", "drivers/test_api_writer.py"
    ),
    "SchedulerAsyncPreemption": GateNote(
        "whether victims are evicted beside the scheduling loop",
        "always beside it; the preemptor waits until its victims are evicted",
        "scheduler/test_eviction.py",
    ),
    "SchedulerPopFromBackoffQ": GateNote(
        "an idle scheduler takes pods out of backoff", AS_UPSTREAM, "scheduler/test_gated_behaviour.py"
    ),
    "SchedulerPreQueueingHints": GateNote(
        "plugins name the pods that an event is about: only these are asked",
        AS_UPSTREAM,
        "queue/test_pre_queueing_hints.py",
    ),
    "StorageCapacityScoring": GateNote(
        "VolumeBinding scores by free capacity", AS_UPSTREAM, "plugins/test_volume_binding.py"
    ),
    "TaintTolerationComparisonOperators": GateNote(
        "Lt and Gt in tolerations: filter, score, hints; validation, eviction, DaemonSets and kubelets",
        AS_UPSTREAM,
        "controllers/test_taint_eviction.py",
    ),
    "TopologyAwareWorkloadScheduling": GateNote(
        "groups go into one topology domain", AS_UPSTREAM, "scheduler/test_group_placements.py"
    ),
    "UnlockWhileProcessingFIFO": GateNote(_CLIENT, NO_NEED),
    "VolumeAttributesClass": GateNote(
        "a volume must have the class of its claim", ALWAYS_ON, "rules/test_persistent_volumes.py"
    ),
    "VolumeLimitScaling": GateNote(
        "a CSIDriver may demand that pods stay off nodes where it does not run",
        AS_UPSTREAM,
        "plugins/test_volume_limits.py",
    ),
    "WatchListClient": GateNote(
        "lists come as streams", "always, where the server has them", "apiclient/test_reflector.py"
    ),
    "WorkloadWithJob": GateNote(
        "the Job controller makes a Workload and a PodGroup for Jobs whose pods all run at once",
        AS_UPSTREAM,
        "embedded/test_embedded_job_groups.py",
    ),
}
"""Every gate that has an effect in kube-scheduler or in the embedded cluster."""
