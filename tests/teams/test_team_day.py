"""A day of three teams (examples/team_queues), with the plugin and without: who waits, and who has what when."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from mooring.cli.main import main

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "team_queues"
CPU_MILLI = {"cart": 500, "page": 1000, "crunch": 1000, "train": 2000}
TEAM = {"research": "research", "shop": "web", "blog": "web", "batch": "batch"}
QUOTA = {"research": 32, "web": 16, "batch": 16}
DAY_S = 25 * 3600

pytestmark = pytest.mark.slow


class TeamDay:
    """What the results of a day say of the teams."""

    def __init__(self, path: Path) -> None:
        self.waited_s: dict[str, list[float]] = defaultdict(list)
        self.results: dict[str, list[str]] = defaultdict(list)
        changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for row in csv.DictReader(path.open()):
            namespace, name = row["pod"].split("/")
            team, milli = TEAM[namespace], CPU_MILLI[name.rsplit("-", 1)[0]]
            self.results[team].append(row["result"])
            self.waited_s[team].append(float(row["bound"]) - float(row["arrived"]))
            changes[team] += [(float(row["bound"]), milli), (float(row["ended"]), -milli)]
        self._used = {team: self._by_second(steps) for team, steps in changes.items()}

    @staticmethod
    def _by_second(steps: list[tuple[float, int]]) -> NDArray[np.float64]:
        """Cpu at each whole second."""
        used = np.zeros(DAY_S)
        for when_s, milli in steps:
            used[int(np.ceil(when_s)) :] += milli / 1000
        return used

    def used(self, team: str, from_h: float, to_h: float) -> NDArray[np.float64]:
        return self._used[team][int(from_h * 3600) : int(to_h * 3600)]


def run(results: Path, *arguments: str) -> TeamDay:
    files = [str(EXAMPLE / "cluster.yaml"), "--arrivals", str(EXAMPLE / "day.yaml"), "--results", str(results)]
    result = CliRunner().invoke(main, ["simulate", *files, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return TeamDay(results)


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> TeamDay:
    plugin = ("--plugin", str(EXAMPLE), "--config", str(EXAMPLE / "config.yaml"))
    return run(tmp_path_factory.mktemp("fair") / "day.csv", *plugin)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> TeamDay:
    return run(tmp_path_factory.mktemp("plain") / "day.csv")


def test_a_team_borrows_while_others_do_not_need_their_quota(fair: TeamDay) -> None:
    assert fair.used("batch", 2, 8).max() == 32 == 2 * QUOTA["batch"]
    assert fair.used("batch", 17.5, 19).min() > QUOTA["batch"], "and again when they have gone"


def test_quota_is_given_back_within_a_minute(fair: TeamDay) -> None:
    assert max(fair.waited_s["research"]) < 60
    assert max(fair.waited_s["web"]) < 60
    assert set(fair.results["research"]) == set(fair.results["web"]) == {"finished"}, (
        "nobody within its quota is evicted"
    )


def test_shares_converge_to_the_quotas(fair: TeamDay) -> None:
    """All three want more than they have between 11:30 and 14:00."""
    assert fair.used("research", 11.5, 14).mean() == pytest.approx(QUOTA["research"], rel=0.02)
    assert fair.used("web", 11.5, 14).mean() == pytest.approx(14, rel=0.1), "all that it asks for"
    assert fair.used("batch", 11.5, 14).min() >= QUOTA["batch"] - 1, "its quota, but for a pod that is about to start"


def test_nothing_starves(fair: TeamDay) -> None:
    assert max(fair.waited_s["batch"]) < 2 * 3600
    assert set(fair.results["batch"]) == {"finished", "preempted"}


def test_no_team_ever_has_more_than_it_may(fair: TeamDay) -> None:
    assert fair.used("web", 0, 25).max() <= QUOTA["web"], "it does not borrow"
    assert fair.used("batch", 0, 25).max() <= QUOTA["batch"] + 32
    total = sum(fair.used(team, 0, 25) for team in QUOTA)
    assert np.max(total) <= sum(QUOTA.values())


def test_without_the_plugin_the_first_to_come_has_everything(plain: TeamDay) -> None:
    assert np.median(plain.waited_s["research"]) > 15 * 60
    assert max(plain.waited_s["research"]) > 3 * 3600
