"""Reads metrics in the protobuf format of Prometheus with Google's protobuf, which shares no code with the writer."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

Field = descriptor_pb2.FieldDescriptorProto
_FORMS = {
    "string": Field.TYPE_STRING,
    "double": Field.TYPE_DOUBLE,
    "uint64": Field.TYPE_UINT64,
    "uint32": Field.TYPE_UINT32,
    "sint32": Field.TYPE_SINT32,
    "sint64": Field.TYPE_SINT64,
    "int32": Field.TYPE_INT32,
}
_MESSAGES = {
    "LabelPair": "name string 1, value string 2",
    "Gauge": "value double 1",
    "Counter": "value double 1",
    "BucketSpan": "offset sint32 1, length uint32 2",
    "Bucket": "cumulative_count uint64 1, upper_bound double 2",
    "Histogram": "sample_count uint64 1, sample_sum double 2, *bucket Bucket 3, schema sint32 5, zero_threshold double 6, "
    "zero_count uint64 7, *negative_span BucketSpan 9, *negative_delta sint64 10, *positive_span BucketSpan 12, "
    "*positive_delta sint64 13",
    "Metric": "*label LabelPair 1, gauge Gauge 2, counter Counter 3, histogram Histogram 7",
    "MetricFamily": "name string 1, help string 2, type int32 3, *metric Metric 4",
}
"""The part of Prometheus' metrics.proto that is written; the enum of types as the number that it is."""


def _family_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="test", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for written in fields.split(", "):
            field_name, form, number = written.split()
            label = Field.LABEL_REPEATED if field_name[0] == "*" else Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name.lstrip("*"), number=int(number), label=label)
            if form in _FORMS:
                field.type = _FORMS[form]
            else:
                field.type, field.type_name = Field.TYPE_MESSAGE, f".test.{form}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.MetricFamily"))


MetricFamily = _family_class()


def read(data: bytes) -> dict[str, Any]:
    """The families by name. Nothing may be left over that the reader does not know."""
    found, at = {}, 0
    while at < len(data):
        length = shift = 0
        while True:
            byte = data[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        family = MetricFamily.FromString(data[at : at + length])
        assert family.SerializeToString() == data[at : at + length]
        found[family.name], at = family, at + length
    return found
