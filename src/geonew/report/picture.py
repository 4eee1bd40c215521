"""A figure of the report: its bytes, its words, and the numbers it was drawn from."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["png", "svg"]
Origin = Literal["drawn", "partly", "kept"]
_MIME = {"png": "image/png", "svg": "image/svg+xml"}


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure.

    Args:
        key: short name, for files and links.
        title: what it shows.
        caption: data, model, budget, command.
        content: the file.
        format: of the file.
        numbers: what was drawn, as JSON data; empty for fields.
        origin: drawn now, drawn now but for what is not on disk, or kept from an earlier report.

    """

    key: str
    title: str
    caption: str
    content: bytes
    format: Format
    numbers: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = "drawn"

    @property
    def file(self) -> str:
        """Name of its file beside the page."""
        return f"figures/{self.key}.{self.format}"

    @property
    def data_uri(self) -> str:
        """The file inside a page."""
        text = base64.b64encode(self.content).decode("ascii")
        return f"data:{_MIME[self.format]};base64,{text}"
