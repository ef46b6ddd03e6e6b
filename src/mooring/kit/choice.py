"""Seeded choice without a generator object: the same attempt always draws the same number, so that it can be repeated."""

_MASK = (1 << 64) - 1
"""splitmix64 computes modulo 2^64."""


def mix(seed: int) -> int:
    """Scatter a seed over 64 bits (the splitmix64 finaliser), so that neighbouring attempts draw unrelated numbers."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def choose(seed: int, count: int) -> int:
    """A number in [0, count), uniform over seeds: the high bits of the mixed seed, scaled."""
    return (mix(seed) * count) >> 64
