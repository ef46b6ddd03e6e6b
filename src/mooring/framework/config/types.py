"""KubeSchedulerConfiguration v1 as typed structures. docs/reference/configuration.md shows the texts of classes and fields.

Field names follow the file's (`podMaxBackoffSeconds` is `pod_max_backoff_seconds`). A default that stands here is what
an absent or null field means; defaults that depend on more than the field itself are in defaults.py.
"""

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from mooring.framework.config.durations import Duration
from mooring.kit.shown_text import shown_url

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
"""Default of `spec.schedulerName`, which the API server sets on pods. A single profile without a name gets this name."""


class GoType(msgspec.Struct, frozen=True):
    """Go type of a field in upstream's configuration. Decoding errors name it."""

    name: str


Int32 = Annotated[int, GoType("int32")]
"""Go's types of numbers, for bounds and for the texts of errors."""
Int64 = Annotated[int, GoType("int64")]


class Section(msgspec.Struct, kw_only=True, rename="camel"):
    """A part of the configuration. Unlike API objects it is decoded strictly: an unknown field is an error."""

    go_package: ClassVar[str] = "v1"
    go_name: ClassVar[str] = ""
    """Upstream's name of the type where it is not the name of the class."""


class LeaderElectionConfiguration(Section):
    """Several schedulers may run; the one that holds the lease schedules. A zero or empty value means the default."""

    # Zero values mean unset: defaults.py fills them in, as upstream does.
    go_package: ClassVar[str] = "v1alpha1"

    leader_elect: bool = True
    """Whether to schedule only while holding the lease."""
    lease_duration: Duration = Duration()
    """How long others wait after the last renewal before they take the lease."""
    renew_deadline: Duration = Duration()
    """How long a leader tries to renew before it gives up; less than the lease duration."""
    retry_period: Duration = Duration()
    """How long to wait between two tries to take or renew the lease."""
    resource_lock: str = ""
    """The kind of the lock; `leases` is the only one."""
    resource_name: str = ""
    """The name of the lease. A second scheduler needs another name."""
    resource_namespace: str = ""
    """The namespace of the lease."""


class ClientConnectionConfiguration(Section):
    """How to reach the API server."""

    go_package: ClassVar[str] = "v1alpha1"

    kubeconfig: str = ""
    """The kubeconfig file. It counts before the flag `--kubeconfig`."""
    accept_content_types: str = ""
    """Read and shown; Mooring asks for JSON."""
    content_type: str = ""
    """Mooring sends binds in protobuf, unless this is another type. Everything else is JSON."""
    qps: float = 0.0
    """Requests a second. Without this field in the file, and without `--kube-api-qps`, Mooring limits none."""
    burst: Int32 = 0
    """How many requests may come at once, where `qps` limits them."""


class PluginEntry(Section):
    """A plugin in a set."""

    go_name: ClassVar[str] = "Plugin"

    name: str = ""
    """The name of the plugin; `*` in `disabled` means all."""
    weight: Int32 = 0
    """The factor of its scores; 0 means 1."""


class PluginSet(Section):
    """Changes to the plugins of one extension point: plugins to enable and default plugins to disable."""

    enabled: list[PluginEntry] = field(default_factory=list)
    """Plugins to add after the default ones, in this order; a default plugin that is named gets this weight."""
    disabled: list[PluginEntry] = field(default_factory=list)
    """Default plugins to take away."""

    def disables(self, name: str) -> bool:
        """Whether the name is listed as disabled. `*` is a name like any other here: callers ask for it by itself."""
        return any(entry.name == name for entry in self.disabled)


class Plugins(Section):
    """One set for each extension point, and `multiPoint` for all points that a plugin extends."""

    pre_enqueue: PluginSet = field(default_factory=PluginSet)
    queue_sort: PluginSet = field(default_factory=PluginSet)
    pre_filter: PluginSet = field(default_factory=PluginSet)
    filter: PluginSet = field(default_factory=PluginSet)
    post_filter: PluginSet = field(default_factory=PluginSet)
    pre_score: PluginSet = field(default_factory=PluginSet)
    score: PluginSet = field(default_factory=PluginSet)
    reserve: PluginSet = field(default_factory=PluginSet)
    permit: PluginSet = field(default_factory=PluginSet)
    pre_bind: PluginSet = field(default_factory=PluginSet)
    bind: PluginSet = field(default_factory=PluginSet)
    post_bind: PluginSet = field(default_factory=PluginSet)
    multi_point: PluginSet = field(default_factory=PluginSet)
    placement_generate: PluginSet = field(default_factory=PluginSet)
    """For pod groups, with the gate TopologyAwareWorkloadScheduling; at most one plugin."""
    placement_score: PluginSet = field(default_factory=PluginSet)
    """For pod groups, with the same gate."""
    pod_group_post_filter: PluginSet = field(default_factory=PluginSet)
    """For pod groups that do not fit, with the gate GenericWorkload."""

    def by_point(self) -> dict[str, PluginSet]:
        """The sets under the names they have in a file, `multiPoint` among them."""
        return {info.encode_name: getattr(self, info.name) for info in msgspec.structs.fields(self)}

    def enabled_names(self) -> set[str]:
        """The plugins that any set enables."""
        return {entry.name for plugin_set in self.by_point().values() for entry in plugin_set.enabled}


class PluginConfig(Section):
    """The arguments of one plugin."""

    name: str = ""
    """The name of the plugin."""
    args: Any = None
    """One of the forms below for a plugin of kube-scheduler; whatever a plugin of your own takes."""
    # Typed where the plugin has an Args kind (args.py), as they were written where it has none.


class KubeSchedulerProfile(Section):
    """The plugins, and their arguments, for the pods that name this profile."""

    scheduler_name: str | None = None
    """The `spec.schedulerName` of its pods. A single profile without a name gets `default-scheduler`."""
    # None only before defaulting; an empty name is an error.
    percentage_of_nodes_to_score: Int32 | None = None
    """As the field of the configuration, for this profile."""
    plugins: Plugins = field(default_factory=Plugins)
    """Changes to the default plugins, by extension point."""
    plugin_config: list[PluginConfig] = field(default_factory=list)
    """Arguments of plugins; those that are not listed have default arguments."""

    def args_of(self, plugin_name: str) -> Any:
        """The first entry counts; None without one."""
        return next((config.args for config in self.plugin_config if config.name == plugin_name), None)


class ExtenderTLSConfig(Section):
    """TLS of an extender. The fields with data take precedence over those with files."""

    insecure: bool = False
    """Whether to accept any certificate of the extender."""
    server_name: str = ""
    """The name that the certificate must have, if it is not that of the URL."""
    cert_file: str = ""
    """The client certificate."""
    key_file: str = ""
    """Its private key."""
    ca_file: str = ""
    """The certificates of trusted authorities."""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(Section):
    """An extended resource that an extender manages."""

    name: str = ""
    """The name of the resource."""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit leaves this resource to the extender."""


class Extender(Section):
    """A scheduler extender, asked over HTTP. It does not serve a verb that is empty."""

    DEFAULT_TIMEOUT: ClassVar[Duration] = Duration.of_seconds(5)

    url_prefix: str = ""
    """The address; a verb is added to it."""
    filter_verb: str = ""
    """Leaves out nodes."""
    preempt_verb: str = ""
    """Changes the victims of preemption."""
    prioritize_verb: str = ""
    """Gives nodes scores."""
    weight: Int64 = 0
    """The factor of its scores; must be positive if it scores."""
    bind_verb: str = ""
    """Binds pods; at most one extender may."""
    enable_https: bool = field(default=False, name="enableHTTPS")
    """Whether to use TLS although the address does not say so."""
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    """How long to wait for an answer; 5 seconds if it is zero."""
    node_cache_capable: bool = False
    """Whether it knows the nodes itself: calls then carry names instead of whole nodes."""
    managed_resources: list[ExtenderManagedResource] = field(default_factory=list)
    """If there are any, it is asked only about pods that request one of them."""
    ignorable: bool = False
    """Whether attempts go on without it if it fails."""

    @property
    def shown_url(self) -> str:
        """The address for messages, without passwords and tokens."""
        return shown_url(self.url_prefix)

    @property
    def timeout(self) -> Duration:
        """How long to wait for an answer: what is written, or five seconds where nothing or zero is."""
        return self.http_timeout if self.http_timeout.nanoseconds else self.DEFAULT_TIMEOUT


class TracingConfiguration(Section):
    """Traces of attempts: the section of component-base that kube-apiserver and the kubelet have. kube-scheduler v1.36 has
    none."""

    endpoint: str | None = None
    """The collector, for OTLP over gRPC without TLS. Without it: `localhost:4317`."""
    sampling_rate_per_million: Int32 | None = None
    """How many of a million attempts are traced. Without it: none."""


class KubeSchedulerConfiguration(Section):
    """The file as a whole."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    """The number of goroutines of kube-scheduler that filter and score. Read and shown; Mooring needs none."""
    leader_election: LeaderElectionConfiguration = field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool = True
    """Whether `/debug/flags/v` can change how much is logged. Mooring serves no profiles of Go."""
    enable_contention_profiling: bool | None = None
    """Follows `enableProfiling`."""
    # None only before defaulting.
    percentage_of_nodes_to_score: Int32 = 0
    """The percentage of nodes after which the search for feasible ones ends. 0 means all, unlike in kube-scheduler."""
    pod_initial_backoff_seconds: Int64 = 1
    """The backoff after the first failed attempt; it doubles with each further one."""
    pod_max_backoff_seconds: Int64 = 10
    """The longest backoff."""
    profiles: list[KubeSchedulerProfile] = field(default_factory=list)
    """Profiles by scheduler name; one for `default-scheduler` if there are none."""
    extenders: list[Extender] = field(default_factory=list)
    """Extenders, asked in this order."""
    delay_cache_until_active: bool = False
    """Whether an instance begins to watch only when it leads. It then needs less memory, and longer to take over."""
    tracing: TracingConfiguration | None = None
    """Traces of attempts. Without it no attempt is traced, unless variables of OpenTelemetry say so."""
    # serve/tracing.py reads those variables.
