"""A figure of the report: its bytes, its words, and the numbers it was drawn from."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["png", "svg"]
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
        cells: whose models made it.
        absent: what it would show besides, were it on disk.
        kept: from an earlier report, not drawn now.

    """

    key: str
    title: str
    caption: str
    content: bytes
    format: Format
    numbers: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    kept: bool = False

    @property
    def file(self) -> str:
        """Name of its file beside the page."""
        return f"figures/{self.key}.{self.format}"

    @property
    def data_uri(self) -> str:
        """The file inside a page."""
        text = base64.b64encode(self.content).decode("ascii")
        return f"data:{_MIME[self.format]};base64,{text}"
