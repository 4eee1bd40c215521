r"""Formulas of the pages as MathML, which browsers draw by themselves: no script, no font, no host.

    \(...\), \[...\] in the page --arithmatex--> marked elements --this hook--> <math>

A formula that cannot be translated ends the build with its text and page.
"""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

# What arithmatex makes of a formula in a line, and of one on a line of its own.
MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?:\(|\[)(?P<tex>.*?)\\(?:\)|\])</(?P=tag)>',
    re.DOTALL,
)
# A command that the translator does not know ends up as text with its backslash.
UNKNOWN = re.compile(r"<m[a-z]+[^>]*>\\[A-Za-z]+")


def mathml(tex: str, display: str) -> str:
    r"""One formula; ``display`` is ``"inline"`` or ``"block"``.

    Raises ValueError for what is not understood.
    """
    try:
        made = convert(tex.strip(), display=display)
    except Exception as error:  # the translator has no exception of its own
        raise ValueError(f"{tex.strip()!r}: {error!r}") from error
    if found := UNKNOWN.search(made):
        raise ValueError(f"{tex.strip()!r}: {found[0].rpartition('>')[2]} is not known")
    return made


def on_page_content(html: str, page, **_: object) -> str:  # type: ignore[no-untyped-def]
    """MkDocs's hook: the page's formulas, translated."""

    def translated(match: re.Match[str]) -> str:
        display = "block" if match["tag"] == "div" else "inline"
        try:
            return mathml(unescape(match["tex"]), display)
        except ValueError as error:
            raise PluginError(f"{page.file.src_path}: {error}") from error

    return MARKED.sub(translated, html)
