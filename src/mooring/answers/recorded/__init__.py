"""Questions about recordings: replay, and agreement with another scheduler."""
