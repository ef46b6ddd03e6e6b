"""GPU sharing, and six policies of a published study of it.

    mooring simulate examples/gpu_sharing/cluster.yaml --plugin examples/gpu_sharing \\
        --config examples/gpu_sharing/policies/fgd.yaml

docs/laboratory.md describes it. `plugin` has GpuShare, which every policy needs: Filter, Reserve and PreBind. The policies
are score plugins: `random_node`, `dot_product`, `gpu_clustering`, `gpu_packing`, `best_fit` and `fgd`. The other modules:
`requests` has what pods ask for, `devices` the free room of every GPU, `score` the base of policies, `typical_pods` and
`fragmentation` what FGD goes by.
"""

from .best_fit import BestFit
from .dot_product import DotProd
from .fgd import FGD
from .gpu_clustering import GpuClustering
from .gpu_packing import GpuPacking
from .plugin import GpuShare
from .random_node import Random

__all__ = ["FGD", "BestFit", "DotProd", "GpuClustering", "GpuPacking", "GpuShare", "Random"]
