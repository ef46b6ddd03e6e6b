"""The release of Kubernetes whose behaviour Mooring has, and how Mooring names itself where a release is asked for."""

from mooring.kit.version import VERSION

KUBERNETES_VERSION = "1.36.4"
"""The version that Mooring is compared with (docs/parity.md)."""
GIT_VERSION = f"v{KUBERNETES_VERSION}+mooring-{VERSION}"
"""As distributions of Kubernetes write it: clients compare the release and ignore what follows the plus sign."""
