"""Small YAML files of our own forms (arrivals, plans of loads, offers of nodes): one document, problems with their lines."""

from collections.abc import Sequence
from typing import Any

from mooring.api.validation.problem import Problem
from mooring.inputs.documents import DocumentPlace, ManifestFile, bytes_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import lines_of
from mooring.kit.yaml_reader import YamlFault, read_documents


def read_own_file(path: str, max_bytes: int, remedy: str, error: type[InputError]) -> tuple[ManifestFile, Any]:
    """The file and its one document. Raises the error; `remedy` says what to do about a file that is larger."""
    file = ManifestFile(path, bytes_of(path, max_bytes, remedy, error))
    documents = documents_of(file, error)
    if not documents:
        raise error([Problem("", "the file has 0 documents; write one", file=path)])
    return file, documents[0]


def documents_of(file: ManifestFile, error: type[InputError]) -> list[Any]:
    """The one document of a file, or none if the file has no content. Raises the error."""
    try:
        documents = [document for document in read_documents(file.text) if document is not None]
    except YamlFault as fault:
        raise error([Problem(f"column {fault.column}", str(fault), file=file.name, line=fault.line)]) from fault
    if len(documents) > 1:
        raise error([Problem("", f"the file has {len(documents)} documents; write one", file=file.name)])
    return documents


def on_lines(file: ManifestFile, problems: Sequence[Problem], under: str = "") -> list[Problem]:
    """The problems with file and line. Paths may begin with `under` though the file leaves it out."""
    document = DocumentPlace(file.name, (1,))
    found = [
        lines_of(file, [(document, problem.path.removeprefix(prefix)) for problem in problems])
        for prefix in dict.fromkeys(("", under))
    ]
    lines = zip(*found, strict=True)
    return [
        problem if problem.line else problem.at(problem.where, file.name).on(max(each))
        for problem, each in zip(problems, lines, strict=True)
    ]
