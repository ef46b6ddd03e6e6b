"""The release of Kubernetes whose behaviour Mooring has, and how Mooring names itself where a release is asked for."""

from mooring.kit.version import VERSION

KUBERNETES_VERSION = "1.37.0"
"""The version that Mooring is compared with (docs/parity.md)."""
RULES = "1.37"
"""The minor release whose rules Mooring decides by. Recordings and snapshots carry it: other rules may decide otherwise."""
RULES_BEFORE = "1.36"
"""The rules of Mooring 0.2 and earlier, whose recordings and snapshots do not name any."""
GIT_VERSION = f"v{KUBERNETES_VERSION}+mooring-{VERSION}"
"""As distributions of Kubernetes write it: clients compare the release and ignore what follows the plus sign."""
