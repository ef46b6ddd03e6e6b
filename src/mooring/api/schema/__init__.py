"""What kinds look like: discovery, OpenAPI, protobuf, strict field checks."""
