"""The form of kinds as clients see it: discovery, OpenAPI, protobuf, strict field checks."""
