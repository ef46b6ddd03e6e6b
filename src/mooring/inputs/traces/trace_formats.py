"""The public traces that Mooring reads, as descriptions of their tables."""

from collections.abc import Mapping

from mooring.inputs.traces.trace_format import MIB, ObjectColumns, TimeColumns, TraceFormat, TraceTable, amount

GPU_MILLI, GPU_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""The names that the public plugins for shared GPUs use, as resources, annotations and labels."""

OPENB = TraceFormat(
    "openb",
    "Alibaba's GPU cluster of 2023: github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023; also in "
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

FORMATS: Mapping[str, TraceFormat] = {each.name: each for each in (OPENB,)}
