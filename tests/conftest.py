"""Settings that all tests share: where builders are found, and how hypothesis behaves."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("MOORING_HYPOTHESIS", "ci"))
"""The same examples every time, so that a red build is red for everyone; `explore` looks for new ones."""
