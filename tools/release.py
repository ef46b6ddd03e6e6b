"""Writes what a release has beside wheel and sdist into dist/: `make release`.

    python tools/release.py                    notes from "Unreleased", if the changelog has no section of the version
    python tools/release.py --version 0.3.0    refuses another version than that of the code, and one without a section

Every file is equal byte for byte for one commit: archives have the time of the commit (SOURCE_DATE_EPOCH), no owner, and
files in the order of their names.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from stamp_version import PLACES, versions_in

from mooring.kit.version import VERSION

ROOT = Path(__file__).parent.parent
CHART = "deploy/helm/mooring"
IMAGE_FILES = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "src",
    "deploy/build.lock",
    "deploy/image.lock",
    "deploy/Dockerfile",
)
"""What deploy/Dockerfile copies, and the file itself."""
NO_OWNER = (
    "mooring.krew.yaml is left out, because krew downloads from the repository: "
    "give OWNER=NAME, the account at github.com that has mooring, or REPOSITORY=URL"
)
PLATFORMS = [("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64")]

LAUNCHER = """\
#!/bin/sh
# kubectl mooring: runs the mooring of this machine, or the one of this release with uv or pipx.
if command -v mooring >/dev/null 2>&1; then exec mooring "$@"; fi
if command -v uvx >/dev/null 2>&1; then exec uvx mooring@{version} "$@"; fi
if command -v pipx >/dev/null 2>&1; then exec pipx run mooring=={version} "$@"; fi
echo "kubectl mooring needs Python 3.11 and one of: pip install mooring, uv, pipx" >&2
exit 1
"""
"""The program that krew installs. Mooring has compiled dependencies, so that no single file could be the whole program."""


class ReleaseFault(Exception):
    """Why there can be no release; the text says what to do."""


# ---- checks


def check_version(asked: str | None, changelog: str) -> None:
    """Raises ReleaseFault if the version that is asked for is not the one that everything names."""
    if asked is None:
        return
    if asked != VERSION:
        raise ReleaseFault(f"src/mooring/kit/version.py has {VERSION}, not {asked}: change it and run `make version`")
    stale = [
        name for name, patterns in PLACES.items() if {*versions_in((ROOT / name).read_text(), patterns)} != {VERSION}
    ]
    if stale:
        raise ReleaseFault(f"{', '.join(stale)}: another version than {VERSION}: run `make version`")
    if section_of(changelog, asked) is None:
        raise ReleaseFault(f"CHANGELOG.md has no section `## {asked} - YYYY-MM-DD`")


def section_of(changelog: str, title: str) -> str | None:
    """The text of a section of the changelog; None if there is none."""
    found = re.search(rf"(?ms)^## {re.escape(title)}( - \d{{4}}-\d\d-\d\d)?\n(.*?)(?=^## |\Z)", changelog)
    return None if found is None else found[2].strip() + "\n"


def left_out(changelog: str) -> str:
    """A warning about changes that the notes of a released version leave out; empty if there are none."""
    if section_of(changelog, VERSION) is None or not (section_of(changelog, "Unreleased") or "").strip():
        return ""
    return f"CHANGELOG.md has changes under Unreleased, which the notes of {VERSION} leave out"


# ---- archives


def archive(names: Mapping[str, bytes], epoch: int, executable: Iterable[str] = ()) -> bytes:
    """A .tar.gz of these files."""
    packed, run = io.BytesIO(), {*executable}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(names.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if name in run else 0o644
            tar.addfile(entry, io.BytesIO(content))
    compressed = io.BytesIO()
    with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=epoch, filename="") as stream:
        stream.write(packed.getvalue())
    return compressed.getvalue()


def tracked(*paths: str) -> list[str]:
    """The files of the commit at or below these paths."""
    command = ["git", "ls-files", "--", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def image_context(epoch: int) -> bytes:
    return archive({name: (ROOT / name).read_bytes() for name in tracked(*IMAGE_FILES)}, epoch)


def chart_package(epoch: int) -> bytes:
    """The chart as `helm package` packs it, but for times and owners."""
    return archive(
        {f"mooring/{Path(name).relative_to(CHART)}": (ROOT / name).read_bytes() for name in tracked(CHART)}, epoch
    )


# ---- the bill of materials


def locked(text: str) -> dict[str, str]:
    """The packages of a lock file and their versions. Of a package with several versions, the last counts."""
    return dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", text))


def bill_of_materials(lock: str, epoch: int) -> dict[str, Any]:
    """CycloneDX 1.6: Mooring and all packages that `pip install mooring` brings, by the lock file."""
    packages = locked(lock)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {re.match(r"[\w.-]+", each)[0].lower() for each in project["dependencies"]}  # type: ignore[index]
    root = {"type": "application", "bom-ref": f"pkg:pypi/mooring@{VERSION}", "name": "mooring", "version": VERSION}
    root |= {"purl": root["bom-ref"], "licenses": [{"license": {"id": project["license"]}}]}  # type: ignore[dict-item]
    references = {name: f"pkg:pypi/{name.lower()}@{version}" for name, version in packages.items()}
    missing = direct - {name.lower() for name in packages}
    if missing:
        raise ReleaseFault(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock`")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'mooring {VERSION} {lock}')}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": root},
        "components": [
            {
                "type": "library",
                "bom-ref": references[name],
                "name": name,
                "version": version,
                "purl": references[name],
                "scope": "required",
            }
            for name, version in packages.items()
        ],
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": sorted(references[n] for n in packages if n.lower() in direct)},
            *({"ref": reference} for reference in references.values()),
        ],
    }


# ---- krew


def krew_manifest(digest: str, repository: str) -> dict[str, Any]:
    """The plugin `mooring` of krew: one archive, which holds a script, for every platform."""
    name = f"kubectl-mooring-{VERSION}.tar.gz"
    platform = {"uri": f"{repository}/releases/download/v{VERSION}/{name}", "sha256": digest, "bin": "kubectl-mooring"}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "mooring"},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": repository,
            "shortDescription": "Explain, simulate and plan scheduling",
            "description": "Why pods are pending, what would help, and what fits: with the decisions of kube-scheduler.\n"
            "Reads the cluster of the current context, and changes nothing.\n",
            "caveats": "Needs Python 3.11 or newer, and one of: pip install mooring, uv, pipx.\n",
            "platforms": [
                {"selector": {"matchLabels": {"os": system, "arch": arch}}, **platform} for system, arch in PLATFORMS
            ],
        },
    }


# ---- all files


def repository_url(repository: str, owner: str) -> str:
    """Where krew downloads from; empty: nobody says. Raises ReleaseFault."""
    if repository and not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", repository):
        raise ReleaseFault(f"REPOSITORY={repository}: must be a URL such as https://github.com/acme/mooring")
    if owner and not re.fullmatch(r"[A-Za-z0-9](-?[A-Za-z0-9])*", owner):
        raise ReleaseFault(f"OWNER={owner}: must be the name of an account, such as acme")
    return repository or (owner and f"https://github.com/{owner}/mooring")


def files_of(changelog: str, epoch: int, repository: str) -> dict[str, bytes]:
    """All files beside wheel and sdist, without the checksums. The manifest of krew needs the URL of the repository."""
    launcher = archive({"kubectl-mooring": LAUNCHER.format(version=VERSION).encode()}, epoch, ["kubectl-mooring"])
    bill = bill_of_materials((ROOT / "requirements.lock").read_text(), epoch)
    krew = yaml.safe_dump(krew_manifest(hashlib.sha256(launcher).hexdigest(), repository), sort_keys=False).encode()
    notes = section_of(changelog, VERSION) or section_of(changelog, "Unreleased") or ""
    return {
        f"mooring-{VERSION}.tgz": chart_package(epoch),
        f"mooring-{VERSION}-image-context.tar.gz": image_context(epoch),
        f"mooring-{VERSION}.cdx.json": json.dumps(bill, indent=1).encode() + b"\n",
        f"kubectl-mooring-{VERSION}.tar.gz": launcher,
        **({"mooring.krew.yaml": krew} if repository else {}),
        "RELEASE_NOTES.md": notes.encode(),
    }


def checksums(folder: Path) -> bytes:
    """A line for each file, as `sha256sum --check` reads it."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    ]
    return "".join(lines).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what a release has beside wheel and sdist.")
    parser.add_argument("--version", help="The version to be released.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="Where to write.")
    parser.add_argument("--repository", default="", help="The URL of the repository that has the release.")
    parser.add_argument("--owner", default="", help="The account at github.com that has it, instead of --repository.")
    options = parser.parse_args()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    try:
        check_version(options.version or None, changelog)
        repository = repository_url(options.repository, options.owner)
        made = files_of(changelog, int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), repository)
    except ReleaseFault as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)
    options.out.mkdir(exist_ok=True)
    for name, content in made.items():
        (options.out / name).write_bytes(content)
    (options.out / "SHA256SUMS").write_bytes(checksums(options.out))
    for warning in (left_out(changelog), "" if repository else NO_OWNER):
        if warning:
            print(warning, file=sys.stderr)
    print(f"{options.out}: {len(list(options.out.iterdir()))} files of mooring {VERSION}")


if __name__ == "__main__":
    main()
