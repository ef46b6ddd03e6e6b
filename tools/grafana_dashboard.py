"""Write the dashboard for Grafana: deploy/helm/mooring/files/dashboard.json (`make chart`).

A panel is a title, a unit and queries; the rest of Grafana's JSON follows. $job is the job of the scrape configuration.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "deploy" / "helm" / "mooring" / "files" / "dashboard.json"
WIDTH, HEIGHT, COLUMNS = 8, 7, 24
"""Of a panel, and how wide a row of the page is, in Grafana's units."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot over time, or a number where `is_number`. Queries by legend; a legend may name labels: {{queue}}."""

    title: str
    unit: str
    queries: dict[str, str]
    is_number: bool = False
    told: str = ""


def quantile(share: float, metric: str, by: str = "") -> str:
    """The query for a quantile of a histogram over five minutes."""
    labels = ", ".join(filter(None, (by, "le")))
    return f'histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{job=~"$job"}}[5m])))'


def total(metric: str, by: str = "") -> str:
    """The query for events a second over five minutes."""
    return f'sum by ({by}) (rate({metric}{{job=~"$job"}}[5m]))'


SLI = "scheduler_pod_scheduling_sli_duration_seconds"
PANELS = (
    Panel("Pods that wait", "short", {"": 'sum(scheduler_pending_pods{job=~"$job"})'}, is_number=True),
    Panel("Stranded pods", "short", {"": 'max(mooring_self_check_stranded_pods{job=~"$job"})'}, is_number=True),
    Panel("Leaders", "short", {"": 'sum(leader_election_master_status{job=~"$job"})'}, is_number=True),
    Panel(
        "Pods that wait, by queue",
        "short",
        {"{{queue}}": 'sum by (queue) (scheduler_pending_pods{job=~"$job"})'},
        told="active: ready to be tried; backoff: tried, and to be tried again; unschedulable: wait for a change; gated.",
    ),
    Panel(
        "Pods that a plugin rejected",
        "short",
        {"{{plugin}}": 'sum by (plugin) (scheduler_unschedulable_pods{job=~"$job"})'},
    ),
    Panel("Attempts", "ops", {"{{result}}": total("scheduler_schedule_attempts_total", "result")}),
    Panel(
        "From ready to bound",
        "s",
        {f"p{round(100 * share)}": quantile(share, SLI) for share in (0.5, 0.9, 0.99)},
        told="The service level indicator: how long pods wait until they are bound.",
    ),
    Panel(
        "A decision",
        "s",
        {
            f"p{round(100 * share)}": quantile(share, "scheduler_scheduling_algorithm_duration_seconds")
            for share in (0.5, 0.99)
        },
    ),
    Panel(
        "Extension points, p99",
        "s",
        {
            "{{extension_point}}": quantile(
                0.99, "scheduler_framework_extension_point_duration_seconds", "extension_point"
            )
        },
    ),
    Panel("Preemption", "ops", {"attempts": total("scheduler_preemption_attempts_total")}),
    Panel(
        "Requests to the API server",
        "reqps",
        {"{{method}} {{code}}": total("rest_client_requests_total", "method, code")},
    ),
    Panel("Requests, p99", "s", {"{{verb}}": quantile(0.99, "rest_client_request_duration_seconds", "verb")}),
    Panel(
        "Time without a watch", "percentunit", {"{{resource}}": total("mooring_watch_gap_seconds_total", "resource")}
    ),
    Panel(
        "Answers that were kept",
        "percentunit",
        {
            "hits": 'sum(rate(mooring_kept_answers_lookups_total{job=~"$job",result="hit"}[5m]))'
            ' / sum(rate(mooring_kept_answers_lookups_total{job=~"$job"}[5m]))'
        },
    ),
    Panel(
        "CPU and memory",
        "short",
        {
            "CPUs": total("process_cpu_seconds_total", "instance"),
            "GiB": 'process_resident_memory_bytes{job=~"$job"} / 2^30',
        },
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's form."""
    job = {
        "name": "job",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": "label_values(scheduler_pending_pods, job)", "refId": "job"},
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    return {
        "uid": "mooring",
        "title": "Mooring",
        "tags": ["kubernetes", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    per_row = COLUMNS // WIDTH
    return {
        "id": number + 1,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.told,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": number % per_row * WIDTH, "y": number // per_row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend or "__auto"}
            for at, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def text() -> str:
    """The file as it should be."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
