"""Figures as bytes: PNG for fields, SVG for charts; the same figure gives the same bytes."""

from __future__ import annotations

import re
from io import BytesIO

from matplotlib import rc_context
from matplotlib.figure import Figure

# Names, dates and addresses that matplotlib would write into a file.
_NOTHING = {"Date": None, "Creator": None, "Format": None, "Type": None}
_DOCTYPE = re.compile(r"<!DOCTYPE[^>]*>\s*")
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)


def as_png(figure: Figure, dpi: int = 95) -> bytes:
    """A picture of dots."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def as_svg(figure: Figure) -> bytes:
    """A drawing that can be enlarged; it refers to nothing outside."""
    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "geonew", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata=_NOTHING)
    text = buffer.getvalue().decode("utf-8")
    return _METADATA.sub("", _DOCTYPE.sub("", text)).encode("utf-8")
