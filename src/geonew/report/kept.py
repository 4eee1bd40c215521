"""Pictures that outlive the runs they show: kept beside the results, for reports made elsewhere.

    Picture --keep--> RESULTS/pictures/KEY.png and KEY.json --kept_pictures--> Picture
    the models that made them --keep--> RESULTS/models/CELL.safetensors

Runs and data of a campaign are large and stay where it was run; what its models predict can be
looked at wherever its results are, and drawn again there once the data have been made again. A
damaged file counts as none.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from geonew.errors import DataError
from geonew.evaluate.report import write_json
from geonew.report.picture import Picture
from geonew.report.results import Results

FOLDER = "pictures"
TEXTS, LISTS = ("title", "caption"), ("cells", "absent")
_KEY = re.compile(r"[a-z0-9-]+")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def keep(pictures: Iterable[Picture], results: Results) -> list[Path]:
    """Write every picture that was drawn from models or data on this machine, and these models."""
    folder = results.place.results / FOLDER
    written = []
    for picture in pictures:
        if picture.format != "png" or picture.kept:
            continue  # charts are drawn from the results themselves
        path = folder / f"{picture.key}.png"
        try:
            folder.mkdir(exist_ok=True)
            path.write_bytes(picture.content)
            for cell in picture.cells:
                _keep_model(cell, results)
        except OSError as error:
            raise DataError(
                f"cannot keep the picture {path}: {error.strerror or error}",
                "make the folder of the results writable, or leave --keep out",
            ) from error
        words = {name: getattr(picture, name) for name in (*TEXTS, *LISTS)}
        write_json(path.with_suffix(".json"), words)
        written.append(path)
    return written


def _keep_model(cell: str, results: Results) -> None:
    source, target = results.checkpoint(cell), results.kept_model(cell)
    if source is not None and source != target:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def kept_pictures(results: Path) -> dict[str, Picture]:
    """The pictures kept beside some results, by key; damaged ones are left out."""
    found = {path.stem: _read(path) for path in sorted((results / FOLDER).glob("*.png"))}
    return {key: picture for key, picture in found.items() if picture is not None}


def _read(path: Path) -> Picture | None:
    try:
        content = path.read_bytes()
        words = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        title, caption = (words[name] for name in TEXTS)
        cells, absent = (tuple(words[name]) for name in LISTS)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    texts = all(isinstance(text, str) for text in (title, caption, *cells, *absent))
    if not texts or not content.startswith(_SIGNATURE) or not _KEY.fullmatch(path.stem):
        return None
    caption = f"{caption} Drawn where the campaign was run."
    return Picture(path.stem, title, caption, content, "png", cells=cells, absent=absent, kept=True)
