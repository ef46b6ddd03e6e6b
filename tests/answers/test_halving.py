"""Numbers that are found by halving, against a look at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.answers.explain.cure import largest, smallest


@given(st.integers(-3, 40), st.integers(0, 40), st.integers(-3, 90))
def test_the_smallest_number_that_suffices(low: int, more: int, limit: int) -> None:
    high, tried = low + 1 + more, list[int]()

    def suffices(number: int) -> bool:
        tried.append(number)
        return number >= limit

    expected = next((each for each in range(low + 1, high) if each >= limit), high)
    assert smallest(suffices, low, high) == expected
    assert all(low < each < high for each in tried), "neither end is tried"
    assert len(tried) <= (high - low).bit_length()


@given(st.integers(-3, 40), st.integers(0, 40), st.integers(-3, 90))
def test_the_largest_number_that_fits(low: int, more: int, limit: int) -> None:
    high = low + 1 + more
    expected = max((each for each in range(low, high) if each <= limit), default=low)
    assert largest(lambda number: number <= limit, low, high) == expected
