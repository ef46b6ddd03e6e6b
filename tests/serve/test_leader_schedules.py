"""Several instances under whatever delays, losses, stalls and crashes: at no moment do two lead."""

from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from electing import SILENT
from election_worlds import CHAOTIC, QUARTERS, STEADY, Instance, Way, World, a_candidate_who_counts
from how_many import examples
from mooring.serve.lease.leader_election import Election


@st.composite
def worlds(draw: st.DrawFn) -> World:
    instances = []
    for identity in "abc"[: draw(st.integers(2, 3))]:
        chance = cycle(draw(st.lists(st.sampled_from([0.0, 0.3125, 0.625]), min_size=1, max_size=4)))
        instances.append(
            Instance(
                Election(a_candidate_who_counts(identity, lambda chance=chance: next(chance)), SILENT),  # type: ignore[misc]
                float(draw(st.integers(-1000, 1000))),
                cycle(draw(st.one_of(CHAOTIC, STEADY))),
                float(draw(st.one_of(st.just(1e9), st.just(1e9), st.integers(0, 100)))),
                float(draw(st.one_of(st.just(1e9), st.integers(0, 30)))),
                draw(st.integers(0, 40)) / 4,
            )
        )
    return World(instances)


@given(worlds())
@settings(max_examples=examples(300))
def test_at_no_moment_do_two_lead(world: World) -> None:
    world.run(until_s=150)


def test_a_slow_leader_that_is_cut_off_stops_before_the_next_begins() -> None:
    """The narrowest case, looked at closely: each renewal is written at once, but its answer takes almost 5 s."""

    def an_instance(identity: str, back: int, cut_off_at_s: float, starts_at_s: float) -> Instance:
        election = Election(a_candidate_who_counts(identity, lambda: 0.0), SILENT)
        return Instance(election, 0.0, cycle([Way(0, back, "answered", 0)]), 1e9, cut_off_at_s, starts_at_s)

    for cut_off_s in range(10, 18):
        for start in range(8):
            world = World([an_instance("a", 19, cut_off_s, 0.0), an_instance("b", 0, 1e9, 9 + start / 4)])
            world.run(until_s=60)
            assert world.leaders == [0, 1]


@given(st.lists(QUARTERS.filter(lambda delay: delay < 8), min_size=1, max_size=10), st.integers(0, 100))
@settings(max_examples=examples(50))
def test_while_answers_come_somebody_leads_soon_after_a_crash(delays: list[int], crash_s: int) -> None:
    def an_instance(identity: str, crashes_at_s: float) -> Instance:
        ways = cycle([Way(delay, 0, "answered", 0) for delay in delays])
        return Instance(Election(a_candidate_who_counts(identity, lambda: 0.625), SILENT), 0.0, ways, crashes_at_s)

    world = World([an_instance("a", float(crash_s)), an_instance("b", 1e9)])
    # To see the change, 15 s, one jittered period, and the requests of a round: up to 2 s each.
    world.run(until_s=crash_s + 2 + 15 + 4 + 10)
    assert world.leaders[-1] == 1
