"""The labels by which nodes and volumes name their zone and region, of both generations."""

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

SUCCESSORS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""What a label of the first generation is called today."""

DELIMITER = "__"
"""Between the zones of a volume that is in several."""
