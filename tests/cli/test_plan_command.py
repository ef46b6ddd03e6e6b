"""`mooring plan` as users see it: what it prints, its exit codes, and refusals in one line."""

import json
import sys
from pathlib import Path

import pytest
from command import mooring, write

from build import a_node, a_pod

OFFERS = """\
- name: small
  price: 0.5
  node: {status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {name: more, price: 2, like: present}
"""

TEXT = """\
3 pending pods: 1 fit on the present nodes, 2 on 2 new nodes.
The new nodes cost 1; no plan for these pods costs less than 1 (0.0% above).
They hold in all 1048 orders of pods and nodes that were tried.

Nodes to add
OFFER   NODES   PRICE   COST   PODS
small   2       0.5     1      2
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", a_node("present"), *(a_pod(f"p{i}", cpu="3", image="i") for i in range(3)))


@pytest.fixture
def offers(tmp_path: Path) -> Path:
    path = tmp_path / "offers.yaml"
    path.write_text(OFFERS)
    return path


def test_the_answer_is_text_with_the_outcome_first(cluster: Path, offers: Path) -> None:
    ran = mooring("plan", "--offer", offers, "--from", cluster)
    assert (ran.code, ran.out) == (0, TEXT)
    assert ran.complaints == ["note: the plan preempts no pod: pods that are pending wait for room"]


def test_money_has_the_unit_that_the_user_names(cluster: Path, offers: Path) -> None:
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--price-unit", "EUR an hour")
    lines = ran.out.splitlines()
    assert lines[1] == (
        "The new nodes cost 1 EUR an hour; no plan for these pods costs less than 1 EUR an hour (0.0% above)."
    )
    assert lines[5] == "OFFER   NODES   price in EUR an hour   cost in EUR an hour   PODS"
    answer = json.loads(mooring("plan", "--offer", offers, "--from", cluster, "--price-unit", "EUR", "-o", "json").out)
    assert (answer["cost"], answer["priceUnit"]) == (1, "EUR")


def test_standard_output_is_json_alone(cluster: Path, offers: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "more.json", a_pod("p9", cpu="3", image="i"))
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--apply", more, "--shrink", "-o", "json")
    answer = json.loads(ran.out)
    assert [(each["offer"], each["count"]) for each in answer["add"]] == [("small", 3)]
    assert (answer["cost"], answer["lowerBound"], answer["remove"], answer["pending"]) == (1.5, 1.5, [], [])


def test_the_exit_status_is_1_if_pods_stay_pending(cluster: Path, offers: Path, tmp_path: Path) -> None:
    giant = write(tmp_path / "giant.json", a_pod("giant", cpu="64", image="i"))
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--from", giant)
    assert ran.code == 1
    assert "1      default/giant   no offer can take it: Insufficient cpu\n" in ran.out


def test_arrivals_are_read(cluster: Path, offers: Path, tmp_path: Path) -> None:
    day = tmp_path / "day.yaml"
    day.write_text("- {at: 0, run: 10, cpu: 3, count: 2}\n")
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--arrivals", day, "-o", "json")
    assert json.loads(ran.out)["pendingAtFirst"] == 5
    day.write_text("- {at: 0, runs: 10}\n")
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--arrivals", day)
    assert (ran.code, len(ran.complaints)) == (2, 1)


def test_bad_input_is_one_line_and_exit_status_2(cluster: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("- name: a\n  prize: 1\n  like: present\n")
    ran = mooring("plan", "--offer", wrong, "--from", cluster)
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints == [
        f"{wrong}:2: offers[0].prize: unknown field; did you mean price?",
        f"{wrong}:1: offers[0].price: Required value: a number: what one node costs",
    ]


def test_there_has_to_be_a_question(cluster: Path) -> None:
    ran = mooring("plan", "--from", cluster)
    assert (ran.code, ran.complaints) == (
        2,
        ["nothing to plan: name the nodes that can be added with --offer FILE, or ask with --shrink which can go"],
    )


def test_options_of_a_search_for_nodes_that_can_go_need_that_search(cluster: Path, offers: Path) -> None:
    told = ["--prices and --seconds are about --shrink: add it, or leave them out"]
    ran = mooring("plan", "--offer", offers, "--from", cluster, "--seconds", "5")
    assert (ran.code, ran.complaints) == (2, told)


def test_nodes_that_can_go_are_found_without_a_solver_and_by_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    prices = tmp_path / "prices.yaml"
    prices.write_text("{a-1: 1, a-2: 2, b-1: 1, b-2: 1, c-1: 1, c-2: 3, big-1: 9}")
    crowded = Path(__file__).parents[2] / "examples" / "crowded.yaml"
    ran = mooring("plan", "--shrink", "--prices", prices, "--seconds", "600", "--from", crowded, "-o", "json")
    told = json.loads(ran.out)
    assert [step["node"] for step in told["remove"]] == ["c-2", "a-2"]
    assert (told["saves"], told["searchedAll"]) == (5, True)


def test_a_missing_solver_is_told_in_one_line(cluster: Path, offers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    ran = mooring("plan", "--offer", offers, "--from", cluster)
    assert (ran.code, ran.complaints) == (2, ["mooring plan needs SciPy: pip install 'mooring[plan]'"])


def test_problems_of_offers_applied_files_and_arrivals_are_told_at_once(tmp_path: Path) -> None:
    offers, more, other, arrivals = (tmp_path / name for name in ("o.yaml", "a.yaml", "b.yaml", "day.yaml"))
    offers.write_text("- name: x\n  price: -1\n  like: nowhere\n")
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  nodeSelectr: {}\n  containers: [{name: c, image: i}]\n"
    more.write_text(pod)
    other.write_text(pod.replace("nodeSelectr", "tolerationz"))
    arrivals.write_text("- {at: soon}\n")
    cluster = write(tmp_path / "cluster.json", a_node("n"))
    files = ("--offer", offers, "--apply", more, "--apply", other, "--arrivals", arrivals)
    ran = mooring("plan", "--from", cluster, *files)
    assert (ran.code, ran.out) == (2, "")
    assert [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in ran.complaints] == [
        "a.yaml:5",
        "b.yaml:5",
        "day.yaml:1",
        "o.yaml:2",
        "o.yaml:3",
    ]
