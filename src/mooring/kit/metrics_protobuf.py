"""Metrics in the protobuf format of Prometheus: io.prometheus.client.MetricFamily, each after its length.

Native histograms exist only in this format; classic buckets are in it as well.
"""

import struct
from itertools import accumulate

from mooring.kit.metrics import (
    ZERO_THRESHOLD,
    AnyFamily,
    Counter,
    Description,
    Gauge,
    Histogram,
    Labels,
    MetricRegistry,
    NativeBuckets,
    spans_of,
)

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

_VARINT, _FIXED_64, _LENGTH = 0, 1, 2
"""Wire types: the form of what follows a tag."""
_TYPES = {"counter": 0, "gauge": 1, "histogram": 4}
"""MetricType."""
_VALUE_FIELDS = {"counter": 3, "gauge": 2, "histogram": 7}
"""The field of Metric that has the value."""


def exposition(registry: MetricRegistry) -> bytes:
    """All families that have series to show, in the order of names."""
    families = sorted(registry, key=lambda family: family.description.name)
    return b"".join(_family(family) for family in families)


def _family(family: AnyFamily) -> bytes:
    about = family.description
    shown: dict[Labels, Counter | Gauge | Histogram] = dict(family.items())
    if not shown:
        return b""
    heading = _text(1, about.name) + _text(2, f"[{about.stability}] {about.help}") + _number(3, _TYPES[about.kind])
    written = heading + b"".join(_message(4, _metric(about, values, shown[values])) for values in sorted(shown))
    return _varint(len(written)) + written


def _metric(about: Description, values: Labels, series: Counter | Gauge | Histogram) -> bytes:
    """Parity: labels are in the order of their names."""
    pairs = sorted(zip(about.labels, values, strict=True))
    labels = b"".join(_message(1, _text(1, name) + _text(2, value)) for name, value in pairs)
    value = _histogram(series) if isinstance(series, Histogram) else _double(1, series.value)
    return labels + _message(_VALUE_FIELDS[about.kind], value)


def _histogram(series: Histogram) -> bytes:
    """Parity: the open bucket is not written; its count is that of all."""
    written = _number(1, series.count) + _double(2, series.total)
    for bound, count in zip(series.bounds, accumulate(series.counts), strict=False):
        written += _message(3, _number(1, count) + _double(2, bound))
    return written if series.native is None else written + _native(series.native)


def _native(buckets: NativeBuckets) -> bytes:
    written = _signed(5, buckets.schema) + _double(6, ZERO_THRESHOLD) + _number(7, buckets.zero_count)
    for counts, span_field, delta_field in ((buckets.negative, 9, 10), (buckets.positive, 12, 13)):
        spans, deltas = spans_of(counts)
        written += b"".join(_message(span_field, _signed(1, offset) + _number(2, length)) for offset, length in spans)
        written += b"".join(_signed(delta_field, delta) for delta in deltas)
    return written


# ---- fields


def _varint(value: int) -> bytes:
    """Seven bits to a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _tag(field: int, form: int) -> bytes:
    return _varint(field << 3 | form)


def _number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value)


def _signed(field: int, value: int) -> bytes:
    """A sint: 0, -1, 1, -2 are written as 0, 1, 2, 3."""
    return _number(field, value << 1 if value >= 0 else (-value << 1) - 1)


def _double(field: int, value: float) -> bytes:
    return _tag(field, _FIXED_64) + struct.pack("<d", value)


def _message(field: int, body: bytes) -> bytes:
    return _tag(field, _LENGTH) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    """Half characters (lone surrogates) become question marks, as in the other format."""
    return _message(field, text.encode(errors="replace"))
