"""Alerts and the dashboard for Grafana: they name metrics that exist, and promtool sees each alert fire when it should."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploying import DEPLOY
from programs import PROMTOOL, needs

sys.path.insert(0, str(DEPLOY.parent / "tools"))
from grafana_dashboard import FILE, PANELS, text

RULES = DEPLOY / "helm" / "mooring" / "files" / "rules.yaml"
METRICS = (DEPLOY.parent / "docs" / "reference" / "metrics.md").read_text()
SLI = "scheduler_pod_scheduling_sli_duration_seconds"

FIRING: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "MooringStrandedPods": ([("mooring_self_check_stranded_pods", "0x5 3x60")], "15m", "16m"),
    "MooringPodsRescuedByFlush": ([("scheduler_pod_scheduled_after_flush_total", "0x10 1x60")], "10m", "12m"),
    "MooringQueueGrows": ([('scheduler_pending_pods{queue="active"}', "0x20 150+10x90")], "36m", "45m"),
    "MooringAttemptErrors": (
        [
            ('scheduler_schedule_attempts_total{profile="p",result="error"}', "0x10 0+10x80"),
            ('scheduler_schedule_attempts_total{profile="p",result="scheduled"}', "0+90x90"),
        ],
        "20m",
        "35m",
    ),
    "MooringWatchGap": ([('mooring_watch_gap_seconds_total{resource="pods"}', "0x10 0+30x60")], "20m", "26m"),
    "MooringHasNoLeader": (
        [
            ('leader_election_master_status{name="m",instance="a"}', "1x10 0x50"),
            ('leader_election_master_status{name="m",instance="b"}', "0x60"),
        ],
        "12m",
        "13m",
    ),
    "MooringLeaderChangesOften": (
        [('leader_election_master_status{name="m",instance="a"}', "1x10 " + "0 1 " * 10)],
        "12m",
        "20m",
    ),
    "MooringSelfCheckDifferences": ([('mooring_self_check_differences_total{kind="pod"}', "0x20 1x40")], "20m", "22m"),
    "MooringSchedulingIsSlow": (
        [
            (f'{SLI}_bucket{{attempts="1",le="5.12"}}', "0+100x20 2000+50x60"),
            (f'{SLI}_count{{attempts="1"}}', "0+100x80"),
        ],
        "20m",
        "45m",
    ),
    "MooringRecordingLosesSteps": ([("mooring_recording_lost_steps_total", "0x20 4x40")], "20m", "22m"),
}
"""By alert: series from the first minute on (promtool's notation), a moment without the alert, and one with it."""


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def named_metrics(expression: str) -> set[str]:
    """The metrics of an expression, without the endings that histograms give to theirs."""
    words = re.findall(r"\b(?:scheduler|mooring|leader_election|rest_client|process)_\w+", expression)
    return {re.sub(r"_(bucket|count|sum)$", "", word) for word in words}


def test_alerts_and_panels_name_metrics_that_exist() -> None:
    expressions = [rule["expr"] for rule in alerts()] + [query for panel in PANELS for query in panel.queries.values()]
    named = set().union(*map(named_metrics, expressions))
    assert len(named) > 15
    assert {name for name in named if f"| `{name}` |" not in METRICS} == set()


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"].endswith(".")


def test_the_dashboard_is_that_of_the_tool() -> None:
    assert FILE.read_text() == text(), "run `make chart`"


def test_panels_do_not_overlap() -> None:
    taken = [json.dumps(panel["gridPos"]) for panel in json.loads(text())["panels"]]
    assert len(set(taken)) == len(taken) == len(PANELS)


def test_every_alert_has_a_case() -> None:
    assert {rule["alert"] for rule in alerts()} == FIRING.keys()


@needs(PROMTOOL)
@pytest.mark.slow
def test_promtool_sees_each_alert_fire_when_it_should(tmp_path: Path) -> None:
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": _with_job(name), "values": values} for name, values in series],
            "promql_expr_test": [_firing(alert, quiet, 0), _firing(alert, firing, 1)],
        }
        for alert, (series, quiet, firing) in FIRING.items()
    ]
    file = tmp_path / "rules_test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([PROMTOOL.required(), "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _with_job(series: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{job="m",{labels or "}"}'


def _firing(alert: str, at: str, count: int) -> dict[str, Any]:
    """Whether the alert fires at a moment."""
    expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {"expr": expression, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}] if count else []}
