"""The metrics of self-checks, word for word."""

from mooring.drivers.self_checks import SelfCheckMetrics
from mooring.kit.metrics import MetricRegistry


def test_the_metrics_of_self_checks() -> None:
    registry = MetricRegistry(())
    metrics = SelfCheckMetrics(registry)
    metrics.found("watch")
    metrics.mended("watch", True)
    metrics.mended("object", False)
    metrics.worked(0.25)
    metrics.worked(0.25)
    metrics.ended("clean", 0.4)
    metrics.stranded(3)
    shown = registry.text()
    texts = {
        "runs_total": (
            "counter",
            "Self-checks that ended, by result: clean, differences, failed, void (the configuration changed meanwhile).",
        ),
        "differences_total": ("counter", "Differences that self-checks found."),
        "repairs_total": ("counter", "Differences that were mended, or could not be."),
        "duration_seconds": ("histogram", "How long self-checks took, pauses included."),
        "cpu_seconds_total": ("counter", "Processor time of self-checks."),
        "stranded_pods": (
            "gauge",
            "Pods that the last self-check found waiting although a fresh scheduler would place them.",
        ),
    }
    for name, (kind, text) in texts.items():
        assert f"# HELP mooring_self_check_{name} [ALPHA] {text}\n# TYPE mooring_self_check_{name} {kind}\n" in shown
    values = dict(line.rsplit(" ", 1) for line in shown.splitlines() if not line.startswith("#"))
    values = {name.removeprefix("mooring_self_check_"): value for name, value in values.items()}
    assert values['runs_total{result="clean"}'] == "1"
    assert values['differences_total{kind="watch"}'] == "1" and values['differences_total{kind="row"}'] == "0"
    assert values['repairs_total{kind="watch",result="mended"}'] == "1"
    assert values['repairs_total{kind="object",result="failed"}'] == "1"
    assert values["cpu_seconds_total"] == "0.5" and values["stranded_pods"] == "3"
    bounds = [name for name in values if name.startswith("duration_seconds_bucket")]
    assert len(bounds) == 13 and bounds[0] == 'duration_seconds_bucket{le="0.25"}'
    assert bounds[1] == 'duration_seconds_bucket{le="0.5"}' and bounds[11] == 'duration_seconds_bucket{le="512"}'
    assert (values["duration_seconds_count"], values["duration_seconds_sum"]) == ("1", "0.4")
