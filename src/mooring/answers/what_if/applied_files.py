"""A cluster after manifests were applied to it, before its scheduler sees them: would these fit?"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.workload_book import WorkloadName
from mooring.answers.what_if.object_changes import apply_manifests
from mooring.api.kinds import KINDS
from mooring.inputs.documents import ManifestFile
from mooring.inputs.field_checks import Validation
from mooring.inputs.loaded_cluster import LoadedCluster, Objects, read_objects
from mooring.inputs.manifests import Manifests, ReadOptions, read_files
from mooring.kit.words import some

NAMED = 5
"""How many objects that were there a note names."""


def with_applied(loaded: LoadedCluster, written: Objects, validation: Validation = Validation.STRICT) -> LoadedCluster:
    """The cluster after objects of files or dictionaries were applied to it. Raises InputError, ConfigError."""
    return _changed(loaded, partial(read_objects, written), validation)


def with_files(
    loaded: LoadedCluster, files: Sequence[ManifestFile], validation: Validation = Validation.STRICT
) -> LoadedCluster:
    """The cluster after files were applied to it that are in memory already. Raises InputError, ConfigError."""
    return _changed(loaded, partial(read_files, files), validation)


def _changed(loaded: LoadedCluster, read: Callable[[ReadOptions], Manifests], validation: Validation) -> LoadedCluster:
    """The cluster after the manifests that `read` reads for it were applied."""
    cluster = ChangingCluster(loaded, validation)
    there = [*cluster.driver.objects.values()]
    manifests = read(ReadOptions(there, validation, loaded.gates, loaded.templates))
    replaced = _replaced(cluster, manifests)
    apply_manifests(cluster, manifests)
    if replaced:
        cluster.note(f"applied over objects that the cluster has: {some(replaced, NAMED)}")
    return replace(
        loaded,
        objects=[*cluster.driver.objects.values()],
        workloads=[*cluster.book.workloads.values()],
        notes=[*loaded.notes, *cluster.notes],
    )


def _replaced(cluster: ChangingCluster, manifests: Manifests) -> list[str]:
    """The objects of the manifests that the cluster has, in the order of the input: a reader may have meant others."""
    written = [*manifests.objects, *(each for each in manifests.workloads if each.kind not in KINDS)]
    return [
        each.where
        for each in sorted(written, key=lambda each: each.order)
        if not each.made_from
        and (
            cluster.find(each.kind, each.object.key) is not None
            or WorkloadName(each.kind, each.object.key) in cluster.book.workloads
        )
    ]
