"""Uploaded files, and how they come: as a form to OpenAI, in pieces to Gemini."""

import itertools
import re
from dataclasses import dataclass

from nightdesk.model.simulator.refusals import Refusal

_BOUNDARY = re.compile(r'boundary="?([^";]+)"?')
_NAME = re.compile(rb'[; ]name="([^"]*)"')
_FILENAME = re.compile(rb'filename="([^"]*)"')
Content = bytes | bytearray


@dataclass(slots=True)
class StoredFile:
    id: str
    name: str
    purpose: str
    created_at: float
    content: Content


class Files:
    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._numbers = itertools.count(1)

    def add(self, name: str, purpose: str, content: Content, now: float, prefix: str = "file-sim") -> StoredFile:
        file = StoredFile(f"{prefix}{next(self._numbers):08d}", name, purpose, now, content)
        self._files[file.id] = file
        return file

    def get(self, id: str) -> StoredFile:
        if id not in self._files:
            raise Refusal(404, f"No such File object: {id}")
        return self._files[id]

    def delete(self, id: str) -> None:
        del self._files[self.get(id).id]

    def all(self) -> list[StoredFile]:
        return list(self._files.values())


def form(content_type: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """The fields of a multipart form: for each its file name, if it is a file, and its content."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise Refusal(400, "The body is not a multipart form.")
    fields = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name, filename = _NAME.search(head), _FILENAME.search(head)
        if name is not None:
            fields[name[1].decode()] = (filename[1].decode() if filename else "", content)
    return fields
