"""Pictures that outlive the models they show: kept beside the results, for reports made elsewhere.

    Picture --keep--> RESULTS/pictures/KEY.png and KEY.json --kept_pictures--> Picture

Models and data of a campaign are large and stay where it was run; what they predict can still be
looked at wherever its results are. A damaged file counts as none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from geonew.errors import DataError
from geonew.evaluate.report import write_json
from geonew.report.picture import Picture

FOLDER = "pictures"
WORDS = ("title", "caption")
_KEY = re.compile(r"[a-z0-9-]+")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def keep(pictures: Iterable[Picture], results: Path) -> list[Path]:
    """Write every picture that was drawn from models or data on this machine."""
    written = []
    for picture in pictures:
        if picture.format != "png" or picture.origin == "kept":
            continue  # charts are drawn from the results themselves
        path = results / FOLDER / f"{picture.key}.png"
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(picture.content)
        except OSError as error:
            raise DataError(
                f"cannot keep the picture {path}: {error.strerror or error}",
                "make the folder of the results writable, or leave --keep out",
            ) from error
        write_json(path.with_suffix(".json"), {name: getattr(picture, name) for name in WORDS})
        written.append(path)
    return written


def kept_pictures(results: Path) -> dict[str, Picture]:
    """The pictures kept beside some results, by key; damaged ones are left out."""
    found = {}
    for path in sorted((results / FOLDER).glob("*.png")):
        picture = _read(path)
        if picture is not None:
            found[path.stem] = picture
    return found


def _read(path: Path) -> Picture | None:
    try:
        content = path.read_bytes()
        words = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        title, caption = (words[name] for name in WORDS)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    texts = isinstance(title, str) and isinstance(caption, str)
    if not texts or not content.startswith(_SIGNATURE) or not _KEY.fullmatch(path.stem):
        return None
    caption = f"{caption} Drawn where the campaign was run."
    return Picture(path.stem, title, caption, content, "png", origin="kept")
