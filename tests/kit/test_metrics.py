"""Metrics: what is recorded, what is shown of it, and the text word for word."""

import pytest

from mooring.kit.metrics import Description, Histogram, Kind, MetricRegistry, exponential, number


def a_registry(kind: Kind, *labels: str, shows_zero: bool = False) -> MetricRegistry:
    bounds = (0.1, 1.0) if kind == "histogram" else ()
    return MetricRegistry([Description("tried", kind, "BETA", "What was tried.", labels, bounds, shows_zero)])


def test_a_counter_as_text() -> None:
    registry = a_registry("counter", "result", "profile")
    yes = registry.counter("tried").series("yes", "default")
    yes.add()
    yes.add(2)
    registry.counter("tried").series("no", "default").add(0.5)
    assert registry.text() == (
        "# HELP tried [BETA] What was tried.\n"
        "# TYPE tried counter\n"
        'tried{result="no",profile="default"} 0.5\n'
        'tried{result="yes",profile="default"} 3\n'
    )


def test_a_histogram_as_text() -> None:
    registry = a_registry("histogram", "result")
    series = registry.histogram("tried").series("yes")
    for value in (0.05, 0.1, 0.5, 7):
        series.observe(value)
    assert registry.text() == (
        "# HELP tried [BETA] What was tried.\n"
        "# TYPE tried histogram\n"
        'tried_bucket{result="yes",le="0.1"} 2\n'
        'tried_bucket{result="yes",le="1"} 3\n'
        'tried_bucket{result="yes",le="+Inf"} 4\n'
        'tried_sum{result="yes"} 7.65\n'
        'tried_count{result="yes"} 4\n'
    )


def test_a_histogram_without_labels_is_shown_before_anything_was_observed() -> None:
    assert a_registry("histogram").text() == (
        "# HELP tried [BETA] What was tried.\n"
        "# TYPE tried histogram\n"
        'tried_bucket{le="0.1"} 0\n'
        'tried_bucket{le="1"} 0\n'
        'tried_bucket{le="+Inf"} 0\n'
        "tried_sum 0\n"
        "tried_count 0\n"
    )


BLANK: dict[str, tuple[MetricRegistry, bool]] = {
    "a counter without labels": (a_registry("counter"), True),
    "a counter with labels": (a_registry("counter", "result"), False),
    "a counter with labels that shows zero": (a_registry("counter", "result", shows_zero=True), True),
    "a gauge with labels": (a_registry("gauge", "result"), True),
    "a histogram with labels": (a_registry("histogram", "result"), False),
}


@pytest.mark.parametrize(("registry", "is_shown"), BLANK.values(), ids=BLANK.keys())
def test_a_series_that_was_made_but_not_used(registry: MetricRegistry, is_shown: bool) -> None:
    (family,) = registry
    family.series(*("yes" for _ in family.description.labels))
    assert bool(registry.text()) is is_shown


def test_nothing_is_shown_of_a_family_without_series() -> None:
    assert a_registry("gauge", "result").text() == ""


def test_families_are_shown_in_the_order_of_their_names() -> None:
    registry = MetricRegistry([Description(name, "gauge", "ALPHA", name) for name in ("b", "a")])
    assert [line for line in registry.text().splitlines() if not line.startswith("#")] == ["a 0", "b 0"]


def test_quotes_lines_and_backslashes_are_escaped() -> None:
    registry = a_registry("gauge", "result")
    registry.gauge("tried").series('a "b"\\\nc').set(1)
    assert registry.text().splitlines()[-1] == 'tried{result="a \\"b\\"\\\\\\nc"} 1'


def test_a_duration_is_seconds_and_never_negative() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe_ns(500_000_000)
    histogram.observe_ns(-5)
    assert (histogram.counts, histogram.total) == ([1, 1, 0], 0.5)


def test_values_can_be_read_when_someone_looks() -> None:
    registry = a_registry("gauge", "queue")
    sizes = {("active",): 1, ("gated",): 2}
    registry.gauge("tried").read_from(sizes.items)
    registry.text()
    del sizes["gated",]
    sizes["active",] = 5
    assert registry.text().splitlines()[2:] == ['tried{queue="active"} 5']


def test_all_starts_anew_but_series_that_are_kept_go_on() -> None:
    registry = a_registry("counter", "result")
    yes = registry.counter("tried").series("yes")
    yes.add(7)
    registry.clear()
    assert registry.text() == ""
    yes.add()
    assert registry.text().splitlines()[-1] == 'tried{result="yes"} 1'


def test_who_keeps_what_is_read_is_told_to_start_anew() -> None:
    registry = a_registry("counter", "result")
    kept = {("yes",): 3}
    registry.counter("tried").read_from(kept.items, kept.clear)
    registry.clear()
    assert registry.text() == ""


def test_labels_must_be_complete() -> None:
    with pytest.raises(ValueError, match="tried has the labels"):
        a_registry("counter", "result").counter("tried").series("yes", "no")


def test_a_name_is_given_once() -> None:
    registry = a_registry("counter")
    same = next(iter(registry)).description
    registry.declare(same)
    assert next(iter(registry)).description is same, "a plugin of several profiles declares its metric several times"
    with pytest.raises(ValueError, match="another metric is named tried"):
        registry.declare(Description("tried", "gauge", "ALPHA", ""))


def test_a_metric_is_asked_for_by_its_kind() -> None:
    with pytest.raises(TypeError, match="tried is a counter, not a gauge"):
        a_registry("counter").gauge("tried")


NUMBERS = {
    "a whole number": (3.0, "3"),
    "a fraction": (16.384, "16.384"),
    "a small one": (1e-05, "1e-05"),
    "one with the dust of multiplication": (exponential(1e-05, 1.5, 2)[1], "1.5000000000000002e-05"),
    "the last of twenty such": (exponential(1e-05, 1.5, 20)[-1], "0.02216837820053101"),
}


@pytest.mark.parametrize(("value", "text"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_half_characters_in_labels_and_help_do_not_spoil_the_page() -> None:
    registry = MetricRegistry([Description("tried_total", "counter", "ALPHA", "Half \ud800", ("who",))])
    registry.counter("tried_total").series('a\ud800"\\\n').add()
    assert registry.text().encode().splitlines()[-1] == b'tried_total{who="a?\\"\\\\\\n"} 1'
