"""Warnings about fields are headers: a field name from a client ends none of them."""

from mooring.api.schema.strict import warning_headers


def test_a_warning_has_no_line_end_and_no_control_character() -> None:
    (header,) = warning_headers(['unknown field "a\r\nSet-Cookie: x=1\x1b\u202e"'])
    assert header == '299 - "unknown field \\"a Set-Cookie: x=1\\\\x1b\\\\u202e\\""'
