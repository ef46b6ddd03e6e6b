"""A configuration that is read again: what changed is said, and a file that cannot be used changes nothing."""

import io
import logging
import os
from pathlib import Path

import pytest

from mooring.app.config_reload import POLL_S, ConfigReload, ConfigReloads, ConfigSource, LoggedReloads
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.inputs.configuration_files import configuration_of
from mooring.kit.clock import VirtualClock
from mooring.kit.logs import start_logs
from mooring.kit.metrics import MetricRegistry
from mooring.state.scheduler_assembly import build_scheduler, configuration_change

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TWO = (
    HEADER
    + """\
podMaxBackoffSeconds: 5
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 5}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
- schedulerName: batch
"""
)
BATCH_ONLY = HEADER + "profiles:\n- schedulerName: batch\n  percentageOfNodesToScore: 50\n"
REORDERED = HEADER + (
    "profiles:\n- plugins:\n    filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}, {name: NodePorts}]}\n"
)


class Reloaded:
    """A scheduler with its file, and all that was told of readings."""

    def __init__(self, file: Path, first: str = HEADER) -> None:
        self.file, self.told = file, list[ConfigReload]()
        file.write_text(first)
        config = configuration_of(file, None)
        self.scheduler = build_scheduler(config, VirtualClock(0))
        source = ConfigSource(str(file), lambda: configuration_of(file, None))
        self.metrics = MetricRegistry()
        self.reloads = ConfigReloads(source, config, self.scheduler, self._swap, self.told.append, self.metrics)

    def _swap(self, config: KubeSchedulerConfiguration) -> None:
        self.scheduler.handle(configuration_change(self.scheduler, config))

    def take(self, text: str) -> ConfigReload:
        """Write the file, and read it as a signal asks for it."""
        self.file.write_text(text)
        self.reloads.reload()
        return self.told[-1]


def test_every_change_is_said(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml")
    assert reloaded.take(TWO) == ConfigReload(
        "changed",
        (
            "profile default-scheduler disables ImageLocality at score",
            "profile default-scheduler has weight 5 instead of 1 of NodeResourcesFit at score",
            "profile default-scheduler has other arguments of NodeResourcesFit",
            "profile batch is added",
            "podMaxBackoffSeconds is 5 instead of 10",
        ),
        ("leaderElection",),
    )
    assert [*reloaded.scheduler.core.runners] == ["default-scheduler", "batch"]
    assert reloaded.reloads.config.leader_election.leader_elect, "what needs a restart stays"
    assert reloaded.take(BATCH_ONLY) == ConfigReload(
        "changed",
        (
            "profile default-scheduler is removed",
            "profile batch has percentageOfNodesToScore 50",
            "podMaxBackoffSeconds is 10 instead of 5",
        ),
    )
    assert reloaded.take(f"# a comment\n{BATCH_ONLY}") == ConfigReload("same")


def test_another_order_of_plugins_is_said(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml", REORDERED)
    swapped = REORDERED.replace("{name: NodeName}, {name: NodePorts}", "{name: NodePorts}, {name: NodeName}")
    assert reloaded.take(swapped).changes == (
        "profile default-scheduler has another order at filter: NodePorts, NodeName",
    )


EXTENDER = HEADER + "extenders:\n- urlPrefix: http://127.0.0.1:9\n  filterVerb: filter\n"


def test_extenders_change_only_where_there_were_some(tmp_path: Path) -> None:
    assert Reloaded(tmp_path / "one.yaml").take(EXTENDER) == ConfigReload("same", (), ("extenders",))
    reloaded = Reloaded(tmp_path / "two.yaml", EXTENDER)
    assert reloaded.take(HEADER) == ConfigReload("changed", ("extenders are none instead of 1",))
    assert reloaded.take(EXTENDER) == ConfigReload("changed", ("extenders are 1 instead of none",))
    assert [each.filter_verb for each in reloaded.scheduler.extenders] == ["filter"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: [\n", "{file}: yaml: line 1: did not find expected node content"),
        (f"{HEADER}profile: []\n", '{file}: strict decoding error: unknown field "profile"'),
        (
            f"{HEADER}podMaxBackoffSeconds: 0\n",
            "{file}: podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            f"{HEADER}profiles:\n- plugins: {{filter: {{enabled: [{{name: Nowhere}}]}}}}\n",
            "{file}: initializing profiles: creating profile for scheduler name default-scheduler: "
            'FilterPlugin "Nowhere" does not exist',
        ),
    ],
    ids=["no YAML", "an unknown field", "an invalid value", "an unknown plugin"],
)
def test_a_faulty_file_changes_nothing(text: str, problem: str, tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml")
    before = reloaded.scheduler.core.runners
    told = reloaded.take(text)
    assert told == ConfigReload("failed", (problem.format(file=reloaded.file),))
    assert reloaded.scheduler.core.runners is before
    assert reloaded.take(BATCH_ONLY).result == "changed", "the next one is taken"


def test_a_file_counts_when_two_readings_agree(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml")
    for text, count in (
        (BATCH_ONLY[:60], 0),
        (BATCH_ONLY, 0),
        (BATCH_ONLY, 1),
        (BATCH_ONLY, 1),
        (HEADER, 1),
        (HEADER, 2),
    ):
        reloaded.file.write_text(text)
        reloaded.reloads.look()
        assert len(reloaded.told) == count
    assert {told.result for told in reloaded.told} == {"changed"}


def test_a_config_map_whose_links_are_switched_over_is_a_change(tmp_path: Path) -> None:
    """The kubelet writes a new folder and switches the link `..data` to it in one step."""
    for name, text in (("..1", HEADER), ("..2", BATCH_ONLY)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    file = tmp_path / "config.yaml"
    file.symlink_to("..data/config.yaml")
    reloaded = Reloaded(file)
    (tmp_path / "..new").symlink_to("..2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    reloaded.reloads.look()
    reloaded.reloads.look()
    assert [told.changes[:2] for told in reloaded.told] == [
        ("profile default-scheduler is removed", "profile batch is added")
    ]


def test_a_file_that_is_gone_is_said_once(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml")
    reloaded.file.unlink()
    for _ in range(4):
        reloaded.reloads.look()
    assert reloaded.told == [ConfigReload("failed", (f"{reloaded.file}: cannot be read: No such file or directory",))]


def test_the_log_has_each_change() -> None:
    lines = io.StringIO()
    logged = LoggedReloads("config.yaml", start_logs(logging.Logger("reloads"), stream=lines).log)
    logged(ConfigReload("changed", ("profile batch is added",), ("tracing",)))
    logged(ConfigReload("failed", ("config.yaml: yaml: line 3",)))
    logged(ConfigReload("same"))
    assert [line.split("] ", 1)[1] for line in lines.getvalue().splitlines()] == [
        '"Configuration section needs a restart, ignored" file="config.yaml" section="tracing"',
        '"Configuration changed" file="config.yaml" changes=1',
        '"Configuration change" change="profile batch is added"',
        '"Configuration cannot be used, nothing changed" file="config.yaml" problem="config.yaml: yaml: line 3"',
        '"Configuration is the same" file="config.yaml"',
    ]


def test_the_metric_counts_results(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path / "config.yaml")
    for text in (BATCH_ONLY, BATCH_ONLY, TWO, "kind: ["):
        reloaded.take(text)
    counted = [
        line for line in reloaded.metrics.text().splitlines() if line.startswith("mooring_config_reloads_total{")
    ]
    assert counted == [
        'mooring_config_reloads_total{result="changed"} 2',
        'mooring_config_reloads_total{result="failed"} 1',
        'mooring_config_reloads_total{result="same"} 1',
    ]
    assert POLL_S == 2.0
