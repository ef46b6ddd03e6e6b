"""What metrics tell of this process: its processor time, its memory, when it began, and what program it is."""

import os
import platform
import resource
import sys
import time
from pathlib import Path

from mooring.framework.metric_catalogue import UPSTREAM_VERSION
from mooring.kit.clock import NS_PER_S
from mooring.kit.metrics import MetricRegistry

_STATM = Path("/proc/self/statm")


def read_process(registry: MetricRegistry, began_ns: int) -> None:
    """Have these read when someone looks."""
    build, began_s = _build(), began_ns / NS_PER_S
    registry.gauge("kubernetes_build_info").read_from(lambda: [(build, 1)])
    registry.counter("process_cpu_seconds_total").read_from(lambda: [((), time.process_time())])
    registry.gauge("process_resident_memory_bytes").read_from(lambda: [((), resident_bytes())])
    registry.gauge("process_start_time_seconds").read_from(lambda: [((), began_s)])


def resident_bytes() -> int:
    """The memory that this process holds; where the system does not tell, the most it ever held."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _build() -> tuple[str, ...]:
    """In the order of metric_catalogue.BUILD_LABELS; what stands for Go and its compiler is Python's."""
    major, minor, _ = UPSTREAM_VERSION.split(".")
    system = f"{platform.system().lower()}/{platform.machine()}"
    language = platform.python_version()
    return major, minor, f"v{UPSTREAM_VERSION}", "", "", "", language, platform.python_implementation(), system
