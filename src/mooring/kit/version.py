"""The version of Mooring, in one place: the build reads it here, and `make version` writes it into other files."""

VERSION = "0.3.0"
