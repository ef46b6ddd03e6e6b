"""v1.37, 20.5: metrics in protobuf, with native histograms, read back by Google's protobuf."""

import math
from collections import Counter as Multiset

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kit.metrics import (
    MAX_BUCKETS,
    SCHEMA,
    ZERO_THRESHOLD,
    Description,
    Histogram,
    MetricRegistry,
    NativeBuckets,
    spans_of,
)
from mooring.kit.metrics_protobuf import exposition
from prometheus_reading import read


def a_registry(*, has_native: bool = True) -> MetricRegistry:
    return MetricRegistry(
        [
            Description("tried_total", "counter", "STABLE", "Tries", ("result", "by")),
            Description("held", "gauge", "ALPHA", "What is held"),
            Description("taken_seconds", "histogram", "BETA", "Time", (), (0.5, 1.0)),
            Description("unused_total", "counter", "ALPHA", "Nothing", ("why",)),
        ],
        has_native=has_native,
    )


def test_v137_20_5_all_kinds_of_metrics() -> None:
    registry = a_registry()
    registry.counter("tried_total").series("yes", "me").add(300)
    registry.gauge("held").series().set(-2.5)
    histogram = registry.histogram("taken_seconds").series()
    for value in (0.25, 1.0, 7.0):
        histogram.observe(value)
    found = read(exposition(registry))
    assert list(found) == ["held", "taken_seconds", "tried_total"]
    tried = found["tried_total"]
    assert (tried.help, tried.type, tried.metric[0].counter.value) == ("[STABLE] Tries", 0, 300)
    assert [(pair.name, pair.value) for pair in tried.metric[0].label] == [("by", "me"), ("result", "yes")]
    assert (found["held"].type, found["held"].metric[0].gauge.value) == (1, -2.5)
    taken = found["taken_seconds"].metric[0].histogram
    assert (found["taken_seconds"].type, taken.sample_count, taken.sample_sum) == (4, 3, 8.25)
    assert [(bucket.upper_bound, bucket.cumulative_count) for bucket in taken.bucket] == [(0.5, 1), (1.0, 2)]
    assert (taken.schema, taken.zero_threshold, taken.zero_count) == (3, 2.938735877055719e-39, 0)
    assert [(span.offset, span.length) for span in taken.positive_span] == [(-16, 1), (15, 1), (22, 1)]
    assert (list(taken.positive_delta), list(taken.negative_span)) == ([1, 0, 0], [])


def test_v137_20_5_without_the_gate_there_are_classic_buckets_alone() -> None:
    registry = a_registry(has_native=False)
    registry.histogram("taken_seconds").series().observe(0.25)
    taken = read(exposition(registry))["taken_seconds"].metric[0].histogram
    assert (len(taken.bucket), taken.HasField("schema"), list(taken.positive_span)) == (2, False, [])


def test_v137_20_5_a_histogram_without_observations_is_native_too() -> None:
    taken = read(exposition(a_registry()))["taken_seconds"].metric[0].histogram
    assert (taken.sample_count, taken.HasField("schema"), taken.zero_threshold > 0) == (0, True, True)


def bucket_of(value: float, schema: int = SCHEMA) -> int:
    """The plain twin: the smallest k with value <= 2**(k / 2**schema)."""
    bucket: int = math.floor(math.log2(value) * 2**schema) - 2
    while value > math.exp2(bucket * 2.0**-schema):
        bucket += 1
    return bucket


sizes = st.floats(1e-6, 1e6, allow_nan=False)


@given(values=st.lists(sizes | sizes.map(lambda value: -value) | st.just(0.0)))
def test_v137_20_5_buckets_have_a_plain_twin(values: list[float]) -> None:
    native = NativeBuckets()
    native.add(np.array(values, np.float64))
    assert native.positive == Multiset(bucket_of(value, native.schema) for value in values if value > 0)
    assert native.negative == Multiset(bucket_of(-value, native.schema) for value in values if value < 0)
    assert native.zero_count == values.count(0.0)


def test_v137_20_5_too_many_buckets_become_wider() -> None:
    native, values = NativeBuckets(), [2.0 ** ((k - 0.5) / 8) for k in range(-200, 200)]
    for value in values:
        native.add(np.array([value]))
        assert len(native.positive) <= MAX_BUCKETS
    assert native.schema == 1
    assert native.positive == Multiset(bucket_of(value, 1) for value in values)


ODD: dict[str, tuple[float, tuple[int, list[int]]]] = {
    "the threshold": (ZERO_THRESHOLD, (1, [])),
    "above the threshold": (ZERO_THRESHOLD * 1.01, (0, [-1023])),
    "infinity": (math.inf, (0, [8193])),
    "the largest number": (1.7976931348623157e308, (0, [8192])),
    "not a number": (math.nan, (0, [])),
    "the smallest number": (5e-324, (1, [])),
}


@pytest.mark.parametrize(("value", "counted"), ODD.values(), ids=ODD.keys())
def test_v137_20_5_odd_values(value: float, counted: tuple[int, list[int]]) -> None:
    native = NativeBuckets()
    native.add(np.array([value]))
    assert (native.zero_count, list(native.positive)) == counted


@given(counts=st.dictionaries(st.integers(-40, 40), st.integers(1, 9)))
def test_v137_20_5_spans_can_be_read_back(counts: dict[int, int]) -> None:
    spans, deltas = spans_of(counts)
    found, at, count, places = {}, 0, 0, iter(deltas)
    for offset, length in spans:
        at += offset
        for _ in range(length):
            count += next(places)
            found[at], at = count, at + 1
    assert {bucket: count for bucket, count in found.items() if count} == counts
    assert next(places, None) is None
    assert all(offset > 2 for offset, _ in spans[1:])


def test_spans_of_the_docstring() -> None:
    assert spans_of({1: 2, 2: 3, 4: 1, 9: 1}) == ([(1, 4), (4, 1)], [2, 1, -3, 1, 0])


def test_durations_zeros_and_clearing() -> None:
    histogram = Histogram((1.0,), is_native=True)
    histogram.observe_ns(1_000_000_000)
    histogram.observe_ns(-5)
    histogram.observe_zero(3)
    histogram.observe(2.0)
    native = histogram.native
    assert native is not None
    assert (native.positive, native.zero_count, histogram.count) == ({0: 1, 8: 1}, 4, 6)
    histogram.clear()
    assert (native.positive, native.zero_count, native.schema, histogram.count) == ({}, 0, 3, 0)


@given(
    taken=st.lists(
        st.integers(-3, 1 << 62) | st.integers(0, 63).flatmap(lambda k: st.integers(max((1 << k) - 2, 0), 1 << k))
    )
)
def test_durations_are_in_the_buckets_of_their_seconds(taken: list[int]) -> None:
    """The table for durations gives what frexp and a search give."""
    histogram, plain = Histogram((1.0,), is_native=True), NativeBuckets()
    for each in taken:
        histogram.observe_ns(each)
    plain.add(np.maximum(np.array(taken, np.int64), 0) / 1e9)
    native = histogram.native
    assert native is not None
    found = native.positive, native.zero_count, native.schema
    assert found == (plain.positive, plain.zero_count, plain.schema)


def test_bounds_themselves_are_in_the_lower_bucket() -> None:
    """Bounds of a second in whole nanoseconds, and the numbers beside them."""
    plain, native = NativeBuckets(), NativeBuckets()
    bounds = np.exp2(np.arange(-200, 200) / 8)
    values = np.concatenate((bounds, np.nextafter(bounds, 0), np.nextafter(bounds, np.inf)))
    plain.add(values)
    native.add_durations(values)
    native.settle()
    assert (native.positive, native.schema) == (plain.positive, plain.schema)
