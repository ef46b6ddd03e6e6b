"""What self-checks count. The metrics exist only where self-checks are on."""

from mooring.kit.metrics import Description, MetricRegistry, exponential
from mooring.state.check.difference import KINDS, DifferenceKind

RUNS = Description(
    "mooring_self_check_runs_total",
    "counter",
    "ALPHA",
    "Self-checks that ended, by result: clean, differences, failed.",
    ("result",),
)
DIFFERENCES = Description(
    "mooring_self_check_differences_total",
    "counter",
    "ALPHA",
    "Differences that self-checks found.",
    ("kind",),
    shows_zero=True,
)
REPAIRS = Description(
    "mooring_self_check_repairs_total",
    "counter",
    "ALPHA",
    "Differences that were mended, or could not be.",
    ("kind", "result"),
)
DURATION = Description(
    "mooring_self_check_duration_seconds",
    "histogram",
    "ALPHA",
    "How long self-checks took, pauses included.",
    bounds=exponential(0.25, 2, 12),
)
CPU = Description("mooring_self_check_cpu_seconds_total", "counter", "ALPHA", "Processor time of self-checks.")
STRANDED = Description(
    "mooring_self_check_stranded_pods",
    "gauge",
    "ALPHA",
    "Pods that the last self-check found waiting although a fresh scheduler would place them.",
)


class SelfCheckMetrics:
    """Records one check after another in a registry."""

    def __init__(self, registry: MetricRegistry) -> None:
        for description in (RUNS, DIFFERENCES, REPAIRS, DURATION, CPU, STRANDED):
            registry.declare(description)
        self._runs, self._repairs = registry.counter(RUNS.name), registry.counter(REPAIRS.name)
        differences = registry.counter(DIFFERENCES.name)
        self._differences = {kind: differences.series(kind) for kind in KINDS}
        self._duration = registry.histogram(DURATION.name).series()
        self._cpu = registry.counter(CPU.name).series()
        self._stranded = registry.gauge(STRANDED.name).series()

    def found(self, kind: DifferenceKind) -> None:
        self._differences[kind].add()

    def mended(self, kind: DifferenceKind, is_mended: bool) -> None:
        self._repairs.series(kind, "mended" if is_mended else "failed").add()

    def worked(self, taken_s: float) -> None:
        """A slice took so much processor time."""
        self._cpu.add(taken_s)

    def ended(self, result: str, duration_s: float) -> None:
        self._runs.series(result).add()
        self._duration.observe(duration_s)

    def stranded(self, count: int) -> None:
        self._stranded.set(count)
