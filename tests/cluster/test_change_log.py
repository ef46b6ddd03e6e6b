"""The log of changes, and the reader that follows several."""

from typing import Any

import pytest

from mooring.cluster.change_log import ChangeLog, Follower, RowLog

LOGS = pytest.mark.parametrize("make", [ChangeLog, RowLog], ids=["of anything", "of rows"])


def a_log(*rows: int, limit: int = RowLog.LIMIT, make: Any = RowLog) -> Any:
    log = make()
    log.LIMIT = limit
    for row in rows:
        log.note(row)
    return log


@LOGS
def test_a_reader_learns_what_changed_since_each_item_once_in_order(make: Any) -> None:
    log = a_log(5, 3, 5, 1, make=make)
    assert log.since(0) == [5, 3, 1]
    assert log.since(2) == [5, 1]
    assert log.since(3) == [1]
    assert log.since(log.end) == []


@LOGS
def test_a_reader_that_stayed_away_too_long_must_start_over(make: Any) -> None:
    log = a_log(*range(5), limit=4, make=make)
    assert log.end == 5
    assert log.since(1) is None
    assert log.since(2) == [2, 3, 4]
    for row in range(100):
        log.note(row)
    assert log.end == 105
    assert log.since(104) == [99]


def test_rows_that_a_reader_holds_stay_while_the_log_goes_on() -> None:
    log = a_log(*range(300), limit=512)
    held = log.rows_since(0)
    for row in range(1000):
        log.note(-row)
    assert held.tolist() == list(range(300))
    assert log.rows_since(log.end - 2).tolist() == [-998, -999]


def test_after_a_change_of_all_rows_every_reader_must_start_over() -> None:
    log = a_log(1, 2)
    log.note_all()
    log.note(3)
    assert log.rows_since(2) is None
    assert log.since(log.end - 1) == [3]


def test_items_can_be_what_a_mapping_is_keyed_by() -> None:
    log: ChangeLog[tuple[str, str]] = ChangeLog()
    log.note(("x", "y"))
    assert log.since(0) == [("x", "y")]
    for _ in range(ChangeLog.LIMIT):
        log.note(("x", "z"))
    assert log.since(0) is None
    assert log.since(log.end - 2) == [("x", "z")]


@pytest.mark.parametrize(
    ("first", "second", "news"),
    [
        pytest.param((), (), [], id="nothing"),
        pytest.param((5, 3, 5), (), [3, 5], id="one log"),
        pytest.param((), (4, 2), [2, 4], id="the other log"),
        pytest.param((5, 3), (4, 3), [3, 4, 5], id="a row in both"),
    ],
)
def test_a_follower_reads_the_rows_of_all_its_logs_ascending(
    first: tuple[int, ...], second: tuple[int, ...], news: list[int]
) -> None:
    follower = Follower(a_log(*first), a_log(*second))
    assert follower.peek() == news
    assert follower.news() == news
    assert follower.news() == []


def test_a_follower_of_a_log_that_forgot_must_start_over() -> None:
    kept, forgetful = a_log(1), a_log(*range(5), limit=4)
    follower = Follower(kept, forgetful)
    assert follower.news() is None
    kept.note(7)
    assert follower.news() == [7]
