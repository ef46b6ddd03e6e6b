"""The public traces that Mooring reads, as descriptions of their tables: which columns say what of a node or a pod, and
in which unit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class TraceAmount:
    """A number: the product of columns and a scale. Empty cells count as 0."""

    columns: tuple[str, ...]
    scale: float = 1.0


def amount(column: str, *others: str, scale: float = 1.0) -> TraceAmount:
    return TraceAmount((column, *others), scale)


@dataclass(frozen=True, slots=True)
class ObjectColumns:
    """How a row of a table becomes a node, or a pod."""

    name: tuple[str, ...]
    """Columns that are unique together; their texts are joined by a hyphen. Empty: objects are numbered."""
    cpu_milli: TraceAmount
    memory_bytes: TraceAmount
    resources: Mapping[str, TraceAmount] = field(default_factory=dict)
    """Extended resources, in whole units: those of a node, or the requests of a pod."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Key -> column. An empty cell is no label."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    annotated_if: str = ""
    """A column: rows where it is 0 have no annotations."""

    def columns(self) -> Iterator[str]:
        """All columns that are read."""
        amounts = (self.cpu_milli, self.memory_bytes, *self.resources.values())
        named = (*self.labels.values(), *self.annotations.values(), self.annotated_if)
        yield from dict.fromkeys(filter(None, chain(self.name, *(each.columns for each in amounts), named)))


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """When pods come and go."""

    arrives: str
    ends: str = ""
    """Empty, or an empty cell: the pod stays."""
    begins: str = ""
    """When the pod began to run, if the trace has it: it runs from then until `ends`. Otherwise from `arrives`."""
    ns: int = 1_000_000_000
    """The unit of these columns in nanoseconds."""
    opens: int | None = None
    """When the trace begins. Pods with an earlier time are there at that moment, and run from then on."""
    closed: int | None = None
    """A number that stands for any time after the end of the trace: a pod that ends then stays, and one that arrives then
    never came."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """A table of events: a row for each change of an object. The rows of an object become one."""

    key: tuple[str, ...]
    """The columns that say which object changed."""
    kind: str
    begins: frozenset[str]
    """Kinds of events with which an object arrives. The earliest one counts, with all of its columns."""
    ends: frozenset[str]
    """Kinds of events with which it leaves. The earliest one after its arrival counts."""
    time: str = "time"
    """The column that orders the events: exports of a database have rows in any order."""


@dataclass(frozen=True, slots=True)
class TraceTable:
    """One table of nodes or pods."""

    objects: ObjectColumns
    header: tuple[str, ...]
    """The columns in their order, for files without a header."""
    times: TimeColumns | None = None
    count: str = ""
    """The column with the number of equal pods that a row stands for."""
    priority: str = ""
    """The column with the priority of a pod; empty: 0."""
    highest_is_lowest: bool = False
    """Whether a smaller number is a higher priority; it is then negated."""
    join: tuple[str, ...] = ()
    """The columns by which a row of a second table is found, which has further columns."""
    join_header: tuple[str, ...] = ()
    events: EventColumns | None = None
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Column -> values: other rows are left out."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Column -> its cells in a file that does not have the column. Files have to have all others."""

    def columns(self) -> list[str]:
        """All columns that are read, in both tables."""
        times, events = self.times, self.events
        timed = (times.arrives, times.ends, times.begins) if times is not None else ()
        changed = (*events.key, events.kind, events.time) if events is not None else ()
        beside = (self.count, self.priority, *self.join, *timed, *changed, *self.where)
        return [*dict.fromkeys(filter(None, (*self.objects.columns(), *beside)))]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A public trace."""

    name: str
    about: str
    """The origin of the data, and where to get them."""
    pods: TraceTable
    nodes: TraceTable | None = None
    """None: the trace does not say which nodes there are."""


GPU_MILLI, GPU_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""The names that the public plugins for shared GPUs use, as resources, annotations and labels."""

OPENB = TraceFormat(
    "openb",
    "Alibaba's GPU cluster of 2023: github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023, whose README describes "
    "the columns; also in "
    "github.com/hkust-adsl/kubernetes-scheduler-simulator",
    TraceTable(
        ObjectColumns(
            ("name",),
            amount("cpu_milli"),
            amount("memory_mib", scale=MIB),
            {GPU_MILLI: amount("num_gpu", "gpu_milli")},
            annotations={GPU_MILLI: "gpu_milli", GPU_COUNT: "num_gpu", GPU_MODEL: "gpu_spec"},
            annotated_if="num_gpu",
        ),
        (
            *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
            *("creation_time", "deletion_time", "scheduled_time"),
        ),
        TimeColumns("creation_time", "deletion_time", "scheduled_time"),
        absent={"gpu_spec": "", "creation_time": "0", "deletion_time": "", "scheduled_time": ""},
    ),
    TraceTable(
        ObjectColumns(
            ("sn",),
            amount("cpu_milli"),
            amount("memory_mib", scale=MIB),
            {GPU_MILLI: amount("gpu", scale=1000), GPU_COUNT: amount("gpu")},
            {GPU_MODEL: "model"},
        ),
        ("sn", "cpu_milli", "memory_mib", "gpu", "model"),
    ),
)

_TASKS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_TASK_REQUESTS = (
    amount("plan_cpu", scale=10),  # percent of a CPU
    amount("plan_mem", scale=GIB),  # the trace says GB; 29.296875 of it are 30,000 MiB
    {GPU_MILLI: amount("plan_gpu", scale=10)},  # percent of a GPU
)
_PAI_NODES = TraceTable(
    ObjectColumns(
        ("machine",),
        amount("cap_cpu", scale=1000),
        amount("cap_mem", scale=GIB),
        {GPU_MILLI: amount("cap_gpu", scale=1000), GPU_COUNT: amount("cap_gpu")},
        {GPU_MODEL: "gpu_type"},
    ),
    ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"),
)
_PAI = (
    "Alibaba's GPU cluster of 2020 (PAI): github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2020, whose README "
    "describes the columns"
)

PAI_TASKS = TraceFormat(
    "pai-tasks",
    f"{_PAI}; pods: pai_task_table, nodes: pai_machine_spec",
    TraceTable(
        ObjectColumns(("job_name", "task_name"), *_TASK_REQUESTS),
        _TASKS,
        TimeColumns("start_time", "end_time"),
        count="inst_num",
    ),
    _PAI_NODES,
)

PAI_INSTANCES = TraceFormat(
    "pai-instances",
    f"{_PAI}; pods: pai_instance_table, types: pai_task_table, nodes: pai_machine_spec",
    TraceTable(
        ObjectColumns(("worker_name",), *_TASK_REQUESTS),
        ("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time", "end_time", "machine"),
        TimeColumns("start_time", "end_time"),
        join=("job_name", "task_name"),
        join_header=_TASKS,
    ),
    _PAI_NODES,
)

MACHINE_CPU_MILLI, MACHINE_BYTES = 100_000, 100 * GIB
"""Traces whose amounts are fractions of a machine: a whole one is 100 CPUs and 100 GiB, so that a CPU is one percent."""

AZURE_PACKING = TraceFormat(
    "azure-packing",
    "Azure's trace for packing of 2020: github.com/Azure/AzurePublicDataset, AzureTracesForPacking2020.md describes the "
    "columns; pods: the table vm of its SQLite file as CSV, types: the table vmType as CSV",
    TraceTable(
        ObjectColumns(("vmId",), amount("core", scale=MACHINE_CPU_MILLI), amount("memory", scale=MACHINE_BYTES)),
        ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime"),
        TimeColumns("starttime", "endtime", ns=86_400_000_000_000, opens=0),
        priority="priority",
        highest_is_lowest=True,
        join=("vmTypeId",),
        join_header=("id", "vmTypeId", "machineId", "core", "memory", "hdd", "ssd", "nic"),
    ),
)

GOOGLE_2019 = TraceFormat(
    "google-2019",
    "Google's Borg cells of May 2019: github.com/google/cluster-data, ClusterData2019, which BigQuery serves and "
    "clusterdata_trace_format_v3.proto describes; pods: "
    "instance_events, nodes: machine_events, each as CSV with fields such as resource_request.cpus AS resource_request_cpus",
    TraceTable(
        ObjectColumns(
            ("collection_id", "instance_index"),
            amount("resource_request_cpus", scale=MACHINE_CPU_MILLI),
            amount("resource_request_memory", scale=MACHINE_BYTES),
        ),
        (
            *("time", "type", "collection_id", "instance_index", "priority", "collection_type"),
            *("resource_request_cpus", "resource_request_memory"),
        ),
        TimeColumns("time", ns=1000, closed=2**63 - 1),
        priority="priority",
        events=EventColumns(
            ("collection_id", "instance_index"),
            "type",
            frozenset({"0", "SUBMIT"}),
            frozenset({"5", "FAIL", "6", "FINISH", "7", "KILL", "8", "LOST"}),
        ),
        where={"collection_type": frozenset({"", "0", "JOB"})},  # reservations have their own instances
    ),
    TraceTable(
        ObjectColumns(
            ("machine_id",),
            amount("capacity_cpus", scale=MACHINE_CPU_MILLI),
            amount("capacity_memory", scale=MACHINE_BYTES),
        ),
        ("time", "machine_id", "type", "capacity_cpus", "capacity_memory"),
        events=EventColumns(("machine_id",), "type", frozenset({"1", "ADD"}), frozenset({"2", "REMOVE"})),
    ),
)

FORMATS: Mapping[str, TraceFormat] = {
    each.name: each for each in (OPENB, PAI_TASKS, PAI_INSTANCES, AZURE_PACKING, GOOGLE_2019)
}
