"""`mooring dump`: saves a cluster as a file that every question takes with --from, and that may be passed on."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from mooring.api.json_objects import JsonObject
from mooring.cli.answering import ClusterSource, asks_cluster, tell_notes
from mooring.cli.options import chosen_gates, configured, file_option, keep_annotations, registry_with
from mooring.cli.refusal import refuse, writing
from mooring.cli.terminal import tell, tell_json_text
from mooring.framework.config.settings import settings_object
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.inputs.dumps.anonymize import Anonymizer, unknown_plugins
from mooring.inputs.dumps.contents import EVERY_KEY, counts, dump_text, dumped_objects, header_in, write_dump
from mooring.inputs.dumps.device_groups import TooManySelectors
from mooring.inputs.manifests import Manifests
from mooring.kit.words import count
from mooring.model.pod_spec import FINISHED_PHASES

STDOUT = "-"

EPILOG = """
\b
Examples:
  mooring dump -o cluster.json.gz                         the cluster that kubectl would use
  mooring dump -o cluster.json.gz --context production    another one
  mooring dump -o report.json.gz --anonymize              for a bug report: all names are replaced
  mooring dump -o cluster.json.gz --plugin power.py       with the annotations that this plugin declares to read
  mooring dump -o cluster.json.gz --keep-annotations example.com/watts,power.example.com/*
  mooring dump -o report.json.gz --anonymize --names names.json && jq -r '."web-0"' names.json
  mooring dump -o small.json --from believed.json         a snapshot or manifests in the form of a dump
  mooring explain web-0 --from cluster.json.gz            ask about it later, or elsewhere

\b
A dump has every object that decisions read (nodes, pods, volumes, devices, budgets, ...), with the fields that decisions
read, and the events of pending pods. It never has Secrets, ConfigMaps, environment variables, commands or arguments.
--config and --feature-gates become part of the dump, so that the same decisions come out elsewhere. Annotations are left out,
except for those that Mooring reads, those that plugins declare (--plugin) and those of --keep-annotations.

\b
--anonymize replaces names of objects, namespaces, labels, taints, images, classes, drivers, devices and schedulers, each by
the same new name everywhere. It keeps amounts, times, the order of names, and words that are Kubernetes' own (zone labels,
linux, default). Device selectors become lists of numbers. Messages are left out. Annotations that plugins declare get other
keys and values; those of --keep-annotations stay as they are. --names writes a table of old and new names, which you need to
talk about the dump; keep it to yourself.

\b
Permissions: `list` for these kinds; mooring/inputs/reader.yaml in the package has a ClusterRole. Nothing is written
to the cluster.

\b
Exit status:
  0  the dump is written
  2  the cluster or the input cannot be read, or the file cannot be written
"""


@click.command(epilog=EPILOG, short_help="Save a live cluster as a file for later questions or a bug report.")
@asks_cluster
@click.option("-o", "--output", required=True, metavar="FILE", help="The file; .gz at the end compresses it.")
@click.option("--anonymize", is_flag=True, help="Replace all names, labels and images; decisions stay the same.")
@file_option("--names", "With --anonymize: write the old and new names to this file, for yourself.")
@keep_annotations
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def dump(
    source: ClusterSource,
    output: str,
    anonymize: bool,
    names: str | None,
    keep_annotations: tuple[str, ...],
    force: bool,
) -> None:
    """Save all objects that decisions read to FILE, a list of Kubernetes objects as JSON. - is standard output."""
    _check_use(output, anonymize, names, force)
    registry = registry_with(source.plugins)
    kept, declared = AnnotationKeys.of(keep_annotations), registry.all_annotation_keys()
    manifests = source.read()
    tell_notes(manifests.custom.notes())
    settings = _settings(source, manifests)
    if anonymize:
        tell_notes(_left_out(settings))
        anonymizer = _anonymizer(manifests, settings, kept, declared)
        manifests, settings = anonymizer.manifests(), anonymizer.settings()
        kept = EVERY_KEY  # the anonymizer has removed all others, and the rest has new keys
        if names is not None:
            _write(names, msgspec.json.format(msgspec.json.encode(anonymizer.book.new_names())))
    items = dumped_objects(manifests, settings, kept | declared)
    _write(output, dump_text(items))
    tell_notes(header_in(items).notes_about(registry))
    tell(f"{'standard output' if output == STDOUT else output}: {_summary(items)}", err=True)


def _check_use(output: str, anonymize: bool, names: str | None, force: bool) -> None:
    """Refuse before the cluster is listed, which may take a minute."""
    if names is not None and not anonymize:
        refuse("--names needs --anonymize: without it there are no new names")
    for target in (output, names):
        if target is not None and target != STDOUT:
            _check_target(target, force)


def _check_target(output: str, force: bool) -> None:
    """Refuse an output path that cannot take a dump, before the cluster is read: a folder, a device, an existing file without
    --force, or a path in a folder that does not exist."""
    path = Path(output)
    if path.is_dir():
        refuse(f"{output}: is a folder; name a file")
    if path.exists() and not path.is_file():  # the dump would take the place of a device, also with --force
        refuse(f"{output}: is a device, pipe or socket; name a file, or - for standard output")
    if path.exists() and not force:
        refuse(f"{output}: the file exists; choose another name, or replace it with --force")
    if not path.parent.is_dir():
        refuse(f"{output}: cannot be written: there is no folder {path.parent}")


def _settings(source: ClusterSource, manifests: Manifests) -> JsonObject | None:
    """The configuration and the gates, if they were given or the source has them; else readers use the defaults."""
    if source.config is None and not source.feature_gates and manifests.settings is None:
        return None
    gates = chosen_gates(source.feature_gates, manifests.settings)
    return settings_object(configured(source.config, gates, manifests.settings), gates)


def _anonymizer(
    manifests: Manifests, settings: JsonObject | None, kept: AnnotationKeys, declared: AnnotationKeys
) -> Anonymizer:
    try:
        return Anonymizer(manifests, settings, kept, declared)
    except TooManySelectors as fault:
        refuse(fault)


def _left_out(settings: JsonObject | None) -> list[str]:
    """Notes about parts of the configuration that an anonymous dump does not have."""
    if settings is None:
        return []
    notes = [f"plugin {name} is left out: it is not part of Mooring" for name in unknown_plugins(settings)]
    if settings["configuration"].get("extenders"):
        notes.append("the extenders of the configuration are left out")
    return notes


def _write(output: str, text: bytes) -> None:
    if output == STDOUT:
        tell_json_text(text)
        return
    with writing(output):
        write_dump(Path(output), text)


def _summary(items: Sequence[JsonObject]) -> str:
    found = counts(items)
    pending = sum(_is_pending(item) for item in items if item["kind"] == "Pod")
    others = sum(found.values()) - found.get("Node", 0) - found.get("Pod", 0)
    pods = f"{count(found.get('Pod', 0), 'pod')} ({pending} pending)"
    return f"{count(found.get('Node', 0), 'node')}, {pods}, {count(others, 'other object')}"


def _is_pending(pod: JsonObject) -> bool:
    is_finished = pod.get("status", {}).get("phase") in FINISHED_PHASES
    return not is_finished and not pod.get("spec", {}).get("nodeName")
