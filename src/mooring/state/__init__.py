"""A scheduler's state as a value: taken, saved, restored, compared, mended, recorded and replayed."""
