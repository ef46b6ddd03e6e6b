"""The tables that follow upstream are filled from upstream's own lists (tools/upstream_tables.py)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from upstream_tables import Spec, gate_rows, gates_of, updated, upstream_metrics, write_gates, write_metrics

from mooring.framework.config.feature_gates import GATES_FILE
from mooring.framework.profile.metric_catalogue import METRICS_FILE, parse_row, row_of

DEFINING = """
const (
    // owner: @someone  // X featuregate.Feature = "NotThis"
    OneThing featuregate.Feature = "One"
    Untyped = "Two"
    Called = featuregate.Feature("Three")
)

var defaults = map[featuregate.Feature]featuregate.VersionedSpecs{
    OneThing: {
        {Version: version.MustParse("1.9"), Default: false, PreRelease: featuregate.Alpha},
        {Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.Beta}, // {a comment}
        {Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},
    },
    Untyped: {{Version: version.MustParse("1.36"), Default: false, PreRelease: GA, LockToDefault: true}},
    library.Named: {{Version: version.MustParse("1.2"), Default: true, PreRelease: Deprecated}},
    Called: {
        {Version: version.MustParse("1.37"), Default: false, PreRelease: Alpha},
        {Version: version.MustParse("1.37"), Default: true, PreRelease: Beta,
         MinCompatibilityVersion: version.MustParse("1.37")},
    },
}

var needed = map[featuregate.Feature][]featuregate.Feature{
    OneThing: {Untyped, featuregate.Feature(library.Named)},
    Untyped: {},
}
"""
NAMING = 'const Named featuregate.Feature = "FromALibrary"\nconst Other Feature = "NotOfTheScheduler"'


def test_gates_are_those_of_the_release() -> None:
    assert gates_of([DEFINING], (1, 36), [NAMING]) == {
        "FromALibrary": (Spec((1, 2), "DEPRECATED", True, False), ()),
        "One": (Spec((1, 30), "BETA", True, False), ("FromALibrary", "Two")),
        "Two": (Spec((1, 36), "GA", False, True), ()),
    }
    later = gates_of([DEFINING], (1, 37), [NAMING])
    assert later["One"][0] == Spec((1, 37), "GA", True, True)
    assert later["Three"][0] == Spec((1, 37), "ALPHA", False, False), "a program of 1.37 understands 1.36 by default"
    assert gates_of([DEFINING], (1, 38), [NAMING])["Three"][0].default


def test_two_definitions_that_differ_are_refused() -> None:
    other = DEFINING.replace("PreRelease: Deprecated", "PreRelease: GA")
    with pytest.raises(ValueError, match="FromALibrary: two files define it"):
        gates_of([DEFINING, other], (1, 36), [NAMING])


def test_rows_keep_which_gates_count_here() -> None:
    rows = [*gate_rows(gates_of([DEFINING], (1, 36), [NAMING]), {"One": "effective"})]
    assert rows == [
        "FromALibrary DEPRECATED 1.2 true - -",
        "One BETA 1.30 true - effective FromALibrary Two",
        "Two GA 1.36 false locked -",
    ]


def test_a_new_release_is_written_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "gates.txt"
    table.write_text("# Gates of v1.36.\nOne BETA 1.30 true - effective Two\nGone GA 1.2 true - -\n")
    (tmp_path / "defining.go").write_text(DEFINING)
    (tmp_path / "naming.go").write_text(NAMING)
    monkeypatch.setattr("mooring.framework.config.feature_gates.GATES_FILE", table)
    write_gates("1.37", [str(tmp_path / "defining.go")], [str(tmp_path / "naming.go")])
    assert table.read_text().splitlines()[:3] == [
        "# Gates of v1.37.",
        "FromALibrary DEPRECATED 1.2 true - -",
        "One GA 1.37 true locked effective FromALibrary Two",
    ]
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "Gone: Gone GA 1.2 true - - -> gone",
        "One: One BETA 1.30 true - effective Two -> One GA 1.37 true locked effective FromALibrary Two",
    ]


def test_our_table_has_the_form_that_the_script_writes() -> None:
    rows = [row for row in GATES_FILE.read_text().splitlines() if not row.startswith("#")]
    assert rows == sorted(rows, key=lambda row: row.split()[0])
    assert {row.split()[5] for row in rows} == {"effective", "scheduler", "embedded", "-"}


# ---- Metrics

ROW = "scheduler_waits_seconds | histogram | ALPHA | result profile | exponential 0.1 2 3 | How long pods wait."
LISTED = """
- name: waits_seconds
  subsystem: scheduler
  help: Not ours.
  type: Histogram
  stabilityLevel: BETA
  labels: [profile, result]
  buckets: [0.1, 0.2, 0.4]
  componentEndpoints: [{component: kube-scheduler, endpoint: /metrics}]
- name: new_total
  subsystem: scheduler
  type: Counter
  stabilityLevel: ALPHA
  componentEndpoints: [{component: kube-scheduler, endpoint: /metrics}]
- {name: elsewhere, type: Gauge, stabilityLevel: ALPHA, componentEndpoints: [{component: kubelet, endpoint: /metrics}]}
"""


def test_metrics_take_what_upstream_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "metrics.txt"
    table.write_text(f"# One a row.\n\n[WAITS] Waits.\n{ROW}\nold_total | counter | ALPHA | | | Old.\n")
    (tmp_path / "list.yaml").write_text(LISTED)
    monkeypatch.setattr("mooring.framework.profile.metric_catalogue.METRICS_FILE", table)
    write_metrics(str(tmp_path / "list.yaml"))
    changed = ROW.replace("ALPHA", "BETA")
    assert table.read_text().splitlines()[3] == changed, (
        "labels in our order, our help text, and buckets as they are written"
    )
    assert capsys.readouterr().out.splitlines() == [
        f"scheduler_waits_seconds: {ROW} -> {changed}",
        "scheduler_new_total: only upstream has it (ALPHA)",
        "old_total: upstream's list for kube-scheduler does not have it",
    ]


def test_labels_and_buckets_that_differ_are_upstreams() -> None:
    listed = {"type": "Histogram", "stabilityLevel": "ALPHA", "labels": ["result"], "buckets": [1, 2]}
    assert row_of(updated(parse_row(ROW), listed)) == (
        "scheduler_waits_seconds | histogram | ALPHA | result | 1 2 | How long pods wait."
    )
    assert upstream_metrics([{"name": "x", "type": "Gauge"}]) == {}


def test_every_row_of_our_metrics_can_be_written() -> None:
    rows = [row for row in METRICS_FILE.read_text().splitlines() if "|" in row and not row.startswith("#")]
    assert len(rows) >= 60
    for row in rows:
        metric = parse_row(row)
        again = parse_row(row_of(metric))
        assert again.bounds == pytest.approx(metric.bounds, rel=1e-9)
        assert again == parse_row(row_of(again))
