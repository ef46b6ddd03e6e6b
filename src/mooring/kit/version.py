"""The version of Mooring, in one place: the build reads it here, and `make version` writes it into the files of deploy/."""

VERSION = "0.2.0"
