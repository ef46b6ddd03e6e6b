"""At which extension points a plugin cannot do without an earlier one."""

import msgspec


class Need(msgspec.Struct, frozen=True):
    """At `point` a plugin reads what it wrote at the point `earlier`. In profiles that disable it there, it fails with
    `error`. Points are named as in the configuration."""

    point: str
    earlier: str
    error: str
