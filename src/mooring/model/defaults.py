"""What an API server adds to objects on their way in, as far as it changes where pods go: defaulting and admission.

Simulations read manifests that never met an API server; these functions do what it would have done. An object that
bears the marks of one (`kubectl get -o json` has them) is left exactly as it is.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.model.devices import EXACT_COUNT, ResourceClaim, ResourceClaimTemplate, ResourceClaimSpec
from mooring.model.kinds import KINDS
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod, ResourceList
from mooring.model.pod_defaults import complete_pod
from mooring.model.problem import Problem, show
from mooring.model.storage import IMMEDIATE, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.workloads import SYSTEM_PRIORITIES, LimitRange, LimitRangeItem, Namespace, PriorityClass, RuntimeClass
