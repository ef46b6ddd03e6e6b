"""The feature gates of kube-scheduler v1.36: their stages, defaults and locks, what they need, and which count here.

All components of a cluster are given the same `--feature-gates`, so all gates of the control plane are known here.
"""

from enum import StrEnum
from typing import NamedTuple


class Stage(StrEnum):
    """Where a feature is in its life; AllAlpha and AllBeta switch whole stages."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Gate(NamedTuple):
    """A feature gate as v1.36 has it."""

    stage: Stage
    default: bool
    is_locked: bool
    """Whether it cannot be set to anything but its default."""


_TABLE: tuple[tuple[Gate, str], ...] = (
    (
        Gate(Stage.ALPHA, default=False, is_locked=False),
        """
    APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
    CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
    DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
    LoggingAlphaOptions ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
    PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
    ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
    VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
        """,
    ),
    (
        Gate(Stage.BETA, default=True, is_locked=False),
        """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
    ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
    ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
    DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess
    InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
    ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures NominatedNodeNameForExpectation
    OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost PodLevelResources
    PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
    PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
    StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook
    WatchList WatchListClient WindowsGracefulNodeShutdown
        """,
    ),
    (
        Gate(Stage.BETA, default=False, is_locked=False),
        """
    ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
    DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
    PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
        """,
    ),
    (
        Gate(Stage.GA, default=True, is_locked=False),
        """
    AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
    MutatingAdmissionPolicy
        """,
    ),
    (
        Gate(Stage.GA, default=True, is_locked=True),
        """
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
    CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
    DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
    ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
    JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
    KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
    LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
    NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
    PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
    UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
        """,
    ),
    (
        Gate(Stage.DEPRECATED, default=True, is_locked=False),
        """
    DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
    StorageNamespaceIndex
        """,
    ),
    (
        Gate(Stage.DEPRECATED, default=False, is_locked=False),
        """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
    DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
        """,
    ),
    (
        Gate(Stage.DEPRECATED, default=True, is_locked=True),
        """
    AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
        """,
    ),
    (
        Gate(Stage.DEPRECATED, default=False, is_locked=True),
        """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
        """,
    ),
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


GATES: dict[str, Gate] = {name: gate for gate, names in _TABLE for name in names.split()}
"""All gates of v1.36 by name."""

NEEDS: dict[str, tuple[str, ...]] = {
    "AuthorizeNodeWithSelectors": ("AuthorizeWithSelectors",),
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": (
        "DynamicResourceAllocation",
        "DRAResourceClaimDeviceStatus",
    ),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAListTypeAttributes": ("DynamicResourceAllocation",),
    "DRANodeAllocatableResources": ("DynamicResourceAllocation",),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRAResourceClaimGranularStatusAuthorization": (
        "DynamicResourceAllocation",
        "DRAResourceClaimDeviceStatus",
    ),
    "DRAResourcePoolStatus": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "DRAWorkloadResourceClaims": (
        "DynamicResourceAllocation",
        "GenericWorkload",
    ),
    "DeclarativeValidationBeta": ("DeclarativeValidation",),
    "DeclarativeValidationTakeover": ("DeclarativeValidation",),
    "DisableAllocatorDualWrite": ("MultiCIDRServiceAllocator",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "ImageVolumeWithDigest": ("ImageVolume",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    "InPlacePodVerticalScalingExclusiveCPUs": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingExclusiveMemory": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingInitContainers": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
    ),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodCertificateRequest": ("AuthorizeNodeWithSelectors",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLifecycleSleepActionAllowZero": ("PodLifecycleSleepAction",),
    "ProcMountType": ("UserNamespacesSupport",),
    "ResourceHealthStatus": ("DynamicResourceAllocation",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": (
        "ContainerRestartRules",
        "NodeDeclaredFeatures",
    ),
    "ServiceAccountTokenNodeBinding": ("ServiceAccountTokenNodeBindingValidation",),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "StructuredAuthenticationConfigurationEgressSelector": ("StructuredAuthenticationConfiguration",),
    "StructuredAuthenticationConfigurationJWKSMetrics": ("StructuredAuthenticationConfiguration",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": (
        "UserNamespacesSupport",
        "NodeDeclaredFeatures",
    ),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
}
"""Gate -> gates that have to be on as well: upstream's defaultKubernetesFeatureGateDependencies."""

STAGES = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Gates that stand for all of a stage."""

EFFECTIVE = _names(
    """
    ComponentFlagz ComponentStatusz CoordinatedLeaderElection DRAConsumableCapacity DRADeviceBindingConditions
    DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
    DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims GangScheduling GenericWorkload
    InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread NodeDeclaredFeatures
    NominatedNodeNameForExpectation PodLevelResources SchedulerPopFromBackoffQ StorageCapacityScoring
    TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling VolumeLimitScaling WorkloadAwarePreemption
    """
)
"""Gates that change what Mooring does."""

OF_SCHEDULERS = EFFECTIVE | _names(
    """
    AtomicFIFO ClientsAllowCARotation ClientsAllowCBOR
    ClientsAllowTLSCacheGC ClientsPreferCBOR ContextualLogging
    DRAAdminAccess
    DRAResourceClaimGranularStatusAuthorization
    DynamicResourceAllocation InOrderInformers InOrderInformersBatchProcess
    InPlacePodVerticalScaling LoggingAlphaOptions LoggingBetaOptions NativeHistograms
    NodeInclusionPolicyInPodTopologySpread OpportunisticBatching
    SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerQueueingHints SidecarContainers
    UnlockWhileProcessingFIFO VolumeAttributesClass WatchListClient
    """
)
"""Gates that change what kube-scheduler does; the others are for other components."""

OF_EMBEDDED = _names(
    """
    ClearingNominatedNodeNameAfterBinding MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePVNodeAffinity WorkloadWithJob
    """
)
"""Gates of other components that change the embedded cluster, and no scheduler."""
