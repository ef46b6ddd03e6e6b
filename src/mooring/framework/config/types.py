"""KubeSchedulerConfiguration v1 as typed structures.

Field names follow the file's (`podMaxBackoffSeconds` is `pod_max_backoff_seconds`). A default that stands here is what
an absent or null field means; defaults that depend on more than the field itself are in defaults.py.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from mooring.framework.config.durations import Duration

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
"""What the API server fills into `spec.schedulerName` of pods, so it is the name of a single profile without one."""


@dataclass(frozen=True, slots=True)
class GoType:
    """What upstream calls the type of a field: its decoding errors name it."""

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
    """Zero values mean unset: defaults.py fills them in, as upstream does."""

    go_package: ClassVar[str] = "v1alpha1"

    leader_elect: bool = True
    lease_duration: Duration = Duration()
    renew_deadline: Duration = Duration()
    retry_period: Duration = Duration()
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionConfiguration(Section):
    """How to reach the API server. `qps` and `burst` limit the requests a second."""

    go_package: ClassVar[str] = "v1alpha1"

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class PluginEntry(Section):
    """A plugin in a set. Weight 0 means 1, and it matters for scoring only."""

    go_name: ClassVar[str] = "Plugin"

    name: str = ""
    weight: Int32 = 0


class PluginSet(Section):
    """What to add to and take from the plugins of one extension point; `*` in `disabled` takes all."""

    enabled: list[PluginEntry] = field(default_factory=list)
    disabled: list[PluginEntry] = field(default_factory=list)

    def disables(self, name: str) -> bool:
        """Whether the name is listed as disabled. `*` is a name like any other here: callers ask for it by itself."""
        return any(entry.name == name for entry in self.disabled)


class Plugins(Section):
    """One set for each extension point, and `multi_point` for all the points that a plugin extends."""

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
    placement_score: PluginSet = field(default_factory=PluginSet)

    def by_point(self) -> dict[str, PluginSet]:
        """The sets under the names they have in a file, `multiPoint` among them."""
        return {info.encode_name: getattr(self, info.name) for info in msgspec.structs.fields(self)}

    def enabled_names(self) -> set[str]:
        """The plugins that any set enables."""
        return {entry.name for plugin_set in self.by_point().values() for entry in plugin_set.enabled}


class PluginConfig(Section):
    """The arguments of one plugin: typed where the plugin has an Args kind, as they were written where it has none."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(Section):
    """A profile as it is written: its plugins and their arguments."""

    scheduler_name: str | None = None
    """None only before defaulting: a single profile without a name gets the default one, an empty name is an error."""
    percentage_of_nodes_to_score: Int32 | None = None
    """None: the configuration's own value counts."""
    plugins: Plugins = field(default_factory=Plugins)
    plugin_config: list[PluginConfig] = field(default_factory=list)

    def args_of(self, plugin_name: str) -> Any:
        """The first entry counts; None without one."""
        return next((config.args for config in self.plugin_config if config.name == plugin_name), None)


class ExtenderTLSConfig(Section):
    """The data fields take precedence over the file fields; in a file they are base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(Section):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(Section):
    """How to reach a scheduler extender; a verb that is empty is one it does not serve."""

    DEFAULT_TIMEOUT: ClassVar[Duration] = Duration.of_seconds(5)

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    """Factor of its scores; must be positive if it scores."""
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    """It knows the nodes itself: calls carry names instead of whole nodes."""
    managed_resources: list[ExtenderManagedResource] = field(default_factory=list)
    ignorable: bool = False
    """If it fails, attempts go on without it."""

    @property
    def timeout(self) -> Duration:
        """How long to wait for an answer: what is written, or five seconds where nothing or zero is."""
        return self.http_timeout if self.http_timeout.nanoseconds else self.DEFAULT_TIMEOUT


class TracingConfiguration(Section):
    """Traces of attempts: the section of component-base that kube-apiserver and the kubelet have. kube-scheduler v1.36 has
    none."""

    endpoint: str | None = None
    """The collector, for OTLP over gRPC without TLS. None: localhost:4317."""
    sampling_rate_per_million: Int32 | None = None
    """How many of a million attempts are traced. None: none of them."""


class KubeSchedulerConfiguration(Section):
    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    """Upstream's number of goroutines that filter and score. Read and shown; columns need none."""
    leader_election: LeaderElectionConfiguration = field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    """None only before defaulting: it follows `enable_profiling`."""
    percentage_of_nodes_to_score: Int32 = 0
    """0: adaptive, by the size of the cluster."""
    pod_initial_backoff_seconds: Int64 = 1
    """Backoff after the first failed attempt; it doubles with each further one, up to the maximum below."""
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[KubeSchedulerProfile] = field(default_factory=list)
    extenders: list[Extender] = field(default_factory=list)
    delay_cache_until_active: bool = False
    tracing: TracingConfiguration | None = None
    """None: no attempt is traced, unless variables of OpenTelemetry say so (live/tracing/settings.py)."""
