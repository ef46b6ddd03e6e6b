"""Where a volume is, by its own labels."""

from mooring.model.storage import PersistentVolume
from mooring.model.topology_labels import BETA_REGION, BETA_ZONE, DELIMITER, REGION, ZONE

TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)

ZoneRule = tuple[str, frozenset[str]]
"""A label, and the values that a node may have for it."""


def zone_rules(volume: PersistentVolume) -> list[ZoneRule]:
    """What the labels of a volume ask of nodes; a label with an empty element asks nothing."""
    rules = []
    for key in TOPOLOGY_LABELS:
        if key in volume.labels:
            values = frozenset(value.strip() for value in volume.labels[key].split(DELIMITER))
            if "" not in values:
                rules.append((key, values))
    return rules
