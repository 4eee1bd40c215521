"""HDF5 without surprises: which objects of a file are read at all.

A file comes from anywhere. Of what HDF5 can do, a data set needs groups and plain arrays of
numbers; all else is refused before anything is read: links to other files or places, arrays whose
bytes lie elsewhere (external and virtual storage), references, variable-length and compound types,
filters other than the built-in deflate, shuffle and checksum, and shapes that the file is too small
to hold. No attribute is read. Nothing in a file is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5t, h5z  # pyright: ignore[reportAttributeAccessIssue]

from geonew.errors import DataError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# The types that are stored: name of numpy.
TYPES = ("<f8", "<i4", "<i8", "|u1")
FILTERS = (h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
# Deflate cannot do better than this, so an array cannot be larger than this times its storage.
BEST_RATIO = 1032
# What a single array of one sample may take in memory.
LARGEST = 2**32
_HOSTILE = "use files from `geonew data generate` or `geonew data import` only"


def member(parent: h5py.Group, name: str, kind: type) -> h5py.Group | h5py.Dataset:
    """A member of a group that is there itself, not through a link elsewhere."""
    link = parent.get(name, getlink=True)
    if link is None:
        raise DataError(f"there is no {name!r} in {parent.name!r}: the file is not a data set")
    if not isinstance(link, h5py.HardLink):
        raise DataError(
            f"{name!r} in {parent.name!r} is a {type(link).__name__}, which is never followed",
            _HOSTILE,
        )
    found = parent.get(name, getclass=True)
    if found is not kind:
        raise DataError(f"{name!r} in {parent.name!r} is no {kind.__name__.lower()}", _HOSTILE)
    return parent[name]  # type: ignore[return-value]


def array(parent: h5py.Group, name: str) -> h5py.Dataset:
    """A dataset of plain numbers whose bytes are in this file, of a shape it can hold."""
    dataset = member(parent, name, h5py.Dataset)
    assert isinstance(dataset, h5py.Dataset)
    properties = dataset.id.get_create_plist()
    if properties.get_layout() == h5d.VIRTUAL or properties.get_external_count():
        raise DataError(f"the bytes of {dataset.name!r} lie in another file", _HOSTILE)
    kind = dataset.id.get_type()
    if kind.get_class() not in (h5t.INTEGER, h5t.FLOAT) or dataset.dtype.str not in TYPES:
        raise DataError(f"{dataset.name!r} holds no numbers of a known type", _HOSTILE)
    ratio = 1
    for number in range(properties.get_nfilters()):
        code = properties.get_filter(number)[0]
        if code not in FILTERS:
            raise DataError(f"{dataset.name!r} needs the filter {code}, not a known one", _HOSTILE)
        ratio = BEST_RATIO if code == h5z.FILTER_DEFLATE else ratio
    if not 1 <= dataset.ndim <= 2 or (dataset.ndim == 2 and dataset.shape[1] > 64):
        raise DataError(f"{dataset.name!r} has shape {dataset.shape}", _HOSTILE)
    announced = np.prod([float(n) for n in dataset.shape]) * dataset.dtype.itemsize
    if announced > ratio * dataset.id.get_storage_size():
        raise DataError(
            f"{dataset.name!r} announces {announced:.4g} bytes, but holds "
            f"{dataset.id.get_storage_size()}",
            "the file is damaged or made to exhaust the memory; " + _HOSTILE,
        )
    return dataset


def check_signature(path: Path) -> None:
    """Refuse what is not an HDF5 file, in words of its own."""
    if not path.exists():
        raise DataError(f"{path}: there is no such file", "check the path")
    if not path.is_file():
        raise DataError(f"{path}: is not a regular file", "give the name of a data file")
    try:
        with path.open("rb") as stream:
            head = stream.read(len(SIGNATURE))
    except OSError as error:
        raise DataError(
            f"{path}: cannot be opened: {error.strerror}", "check its rights"
        ) from error
    if head != SIGNATURE:
        raise DataError(
            f"{path}: is not an HDF5 file (it begins with {head!r}), so it has no sample 0",
            "give a file made by `geonew data generate` or `geonew data import`",
        )


def stored_length(path: Path, pages: Mapping[int, bytes]) -> int:
    """The length that the file says it has (superblock versions 2 and 3); 0 if unknown.

    Args:
        path: the file.
        pages: of its journal; the first one replaces the beginning of the file.

    """
    with path.open("rb") as stream:
        head = pages.get(0, b"")[:48] or stream.read(48)
    if len(head) < 48 or head[8] not in (2, 3) or head[9] != 8:
        return 0
    return int.from_bytes(head[28:36], "little")
