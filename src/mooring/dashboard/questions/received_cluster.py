"""The other end of `asked_cluster.py`: the lines that a process reads become the cluster that questions are asked about."""

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.api.kinds import KINDS
from mooring.dashboard.questions.asked_cluster import UNWATCHED, QuestionHeader
from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.config.settings import read_settings
from mooring.framework.profile.registry import load_file
from mooring.inputs.documents import ManifestFile
from mooring.inputs.dump_header import DumpHeader
from mooring.inputs.field_checks import Validation
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.manifests import Manifests, ReadOptions, read_files
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload
from mooring.queue.queue_record import QueueRecord
from mooring.state.scheduler_assembly import all_plugins


def read_header(line: bytes) -> QuestionHeader:
    return msgspec.json.decode(line, type=QuestionHeader)


def received(header: QuestionHeader, lines: Iterable[bytes]) -> LoadedCluster:
    """The cluster of the lines. Raises ConfigError, RegistryError."""
    objects, written = _objects(lines)
    more = _read(written, objects)
    there = {(type(item).__name__, item.key) for item in objects}
    objects += [each.object for each in more.objects if (each.kind, each.object.key) not in there]
    settings = read_settings(header.settings, os.devnull)
    assert settings is not None, "the parent has written them"
    gates = parse_gates(settings.gates_text)
    registry = all_plugins()
    for file in header.plugin_files:
        load_file(registry, file)
    return LoadedCluster(
        objects,
        configuration.from_object(settings.configuration, feature_gates=gates),
        registry,
        gates,
        [each.object for each in more.workloads if isinstance(each.object, Workload)],
        events=more.events,
        queue=QueueRecord(pods=(header.waiting,)) if header.waiting is not None else None,
    )


def _objects(lines: Iterable[bytes]) -> tuple[list[KubeObject], list[bytes]]:
    """Typed objects, and others as they are written."""
    decoders: dict[bytes, msgspec.json.Decoder[Any]] = {
        kind.encode(): msgspec.json.Decoder(spec.struct) for kind, spec in KINDS.items()
    }
    objects: list[KubeObject] = []
    written: list[bytes] = []
    for line in lines:
        kind, _, body = line.partition(b" ")
        if kind == UNWATCHED:
            written.append(body)
        else:
            objects.append(decoders[kind].decode(body))
    return objects, written


def _read(written: list[bytes], objects: list[KubeObject]) -> Manifests:
    """Objects that the scheduler does not watch, as commands read them. Pods of workloads are all there: none is created."""
    if not written:
        return Manifests()
    text = b'{"apiVersion":"v1","kind":"List","items":[%s]}' % b",".join(written)
    header = DumpHeader(has_all_pods=True)
    options = ReadOptions(objects, Validation.IGNORE, header=header)
    return read_files([ManifestFile("the cluster", text)], options)
