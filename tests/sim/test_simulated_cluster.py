"""A simulated cluster: which node is taken among equals, and what it tells while time passes."""

from build import a_node, a_pod
from mooring.framework import config as configuration
from mooring.inputs.arrivals import Arrival
from mooring.kit.clock import NS_PER_S
from mooring.sim.day import Day
from mooring.sim.simulation import Simulation

NODES = [a_node(f"n-{i}") for i in range(8)]


def placed(seed: int | None) -> str:
    pod = a_pod("p", cpu="1", schedulerName="default-scheduler")
    report = Simulation([*NODES, pod], configuration.default(), ties=seed).run()
    return report.placed[0].node


def test_of_equal_nodes_the_one_with_the_lowest_name_is_taken_or_one_that_the_seed_says() -> None:
    assert placed(None) == "n-0"
    assert len({placed(seed) for seed in range(20)}) > 4
    assert [placed(seed) for seed in range(20)] == [placed(seed) for seed in range(20)]


def test_a_day_has_seeds_too() -> None:
    def nodes(seed: int | None) -> list[str]:
        pods = [a_pod(f"p-{i}", cpu="100m", schedulerName="default-scheduler") for i in range(8)]
        day = Day(NODES, [Arrival(0, pod, None) for pod in pods], configuration.default(), ties=seed)
        return [*day.run().placements.values()]

    assert nodes(None) == [f"n-{i}" for i in range(8)]
    assert len({tuple(nodes(seed)) for seed in range(5)}) == 5


def test_a_result_says_how_long_its_pod_waited() -> None:
    pods = [a_pod(f"p-{i}", cpu="3", schedulerName="default-scheduler") for i in range(3)]
    report = Simulation([*NODES[:2], *pods], configuration.default()).run()
    assert [result.waited_s for result in report.pods] == [0.001, 0.002, None]


def test_a_reader_sees_the_cluster_before_time_passes_and_at_the_end() -> None:
    pod = a_pod("p", cpu="1", schedulerName="default-scheduler")
    day = Day(NODES[:1], [Arrival(10 * NS_PER_S, pod, 5 * NS_PER_S)], configuration.default())
    seen: list[tuple[float, float, int]] = []
    begin_ns = day.simulated.clock.now_ns()

    def read(until_ns: int) -> None:
        times_s = [(when_ns - begin_ns) / NS_PER_S for when_ns in (day.simulated.clock.now_ns(), until_ns)]
        seen.append((times_s[0], times_s[1], len(day.simulated.cluster.nodes.pods())))

    day.on_reading = read
    day.run()
    assert [*dict.fromkeys(seen)] == [(0, 10, 0), (10, 10.001, 0), (10.001, 15.001, 1), (15.001, 15.001, 0)]
