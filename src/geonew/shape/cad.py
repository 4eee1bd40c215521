r"""From a CAD or geometry file to a mesh: .geo, .step, .brep and .stl.

The cells are those of the file's physical groups of highest dimension (gmsh's own convention: what
is in no physical group is scaffolding), or of all volumes (surfaces, in the plane) where there are
none. Boundary groups are the physical groups one dimension lower, by name; a file without any gets
one group for each boundary curve or surface, ``curve_3`` or ``surface_5``, and a note says so.
Whatever else is needed to make a conforming simplicial mesh (splitting, orientation, one connected
part) happens in :mod:`geonew.mesh.repair`, as for a mesh file.

A .geo file is a program: its language can start other programs, write files and end the process.
Such files are refused before gmsh sees them, together with everything they include.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy import ndarray

from geonew.errors import MeshError, ShapeError
from geonew.mesh import Mesh
from geonew.mesh.repair import RawMesh, clean
from geonew.shape.curves import Number
from geonew.shape.mesher import session

SCRIPTS = (".geo", ".geo_unrolled")
SUFFIXES = (*SCRIPTS, ".step", ".stp", ".brep", ".stl")
# Files that gmsh reads as data when a script merges them; anything else it reads as a script.
_DATA = (".step", ".stp", ".brep", ".iges", ".igs", ".stl", ".msh")

# Without a size, an STL surface is filled with cells of this fraction of its diameter.
STL_CELLS_ACROSS = 20
# An edge of an STL surface with a larger angle between its triangles bounds a face (gmsh's t13).
STL_EDGE_ANGLE = np.radians(40.0)

# What gmsh's parser may hold of a script that it has not read yet, in characters.
PARSER_BUFFER = 16384

# Commands of gmsh's language that act outside the model, and what they would do.
_FORBIDDEN = {
    r"((NonBlocking)?System(Call)?|OnelabRun)\b": "starts another program",
    r"(Save|Print|CreateDir)\b(?!\s*\.)": "writes files",
    r"(Printf|Error|Warning)\s*\([^;]*\)\s*>": "writes files",
    r"Exit\b": "ends the process",
}
# gmsh's texts know no escapes: a backslash before the closing quote does not keep them open.
_COMMENT_OR_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|'[^']*'", re.DOTALL)
_READ = re.compile(r"(?<![\w.])(Include|Merge\w*|Open\w*|ShapeFromFile)\b")
_NAMED = re.compile(r"\s*\(?\s*[\"']([^\"']*)[\"']\s*\)?\s*;")

# gmsh's numbers of the basic element shapes, by name and dimension.
_FAMILIES = {
    "Line": "line",
    "Triangle": "triangle",
    "Quadrilateral": "quad",
    "Tetrahedron": "tetra",
    "Hexahedron": "hexahedron",
    "Prism": "wedge",
    "Pyramid": "pyramid",
}


def make_mesh(
    path: str | Path,
    size: Number | None = None,
    dim: int | None = None,
    *,
    keep: str | None = None,
) -> Mesh:
    """Mesh a geometry file; see the module docstring.

    Args:
        path: a file with one of the endings ``SUFFIXES``.
        size: largest cell size; it replaces the sizes at the file's points, not its size fields.
        dim: 2 or 3; by default 3 if the file has volumes (or is an STL surface), else 2.
        keep: ``"largest"`` keeps the largest of several unconnected parts; by default refused.

    """
    path = Path(path)
    _check_request(path, size, dim)
    with session(path.name, "correct the geometry in the program it comes from") as gmsh:
        notes = _open(gmsh, path, size)
        dim = dim or (3 if gmsh.model.getEntities(3) else 2)
        if not gmsh.model.getEntities(dim):
            what = "volumes" if dim == 3 else "surfaces"
            raise ShapeError(f"{path.name} has no {what} to mesh", "check the file, or give dim")
        if gmsh.option.getNumber("Mesh.ElementOrder") > 1:
            notes.append("the file asks for curved cells; straight ones were made")
            gmsh.option.setNumber("Mesh.ElementOrder", 1)
        gmsh.model.mesh.generate(dim)
        raw = _raw(gmsh, dim, notes)
    try:
        return clean(raw, keep)
    except MeshError as error:
        raise type(error)(f"{path.name}: {error.what}", error.cure) from error


def _check_request(path: Path, size: Number | None, dim: int | None) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise ShapeError(
            f"cannot mesh {path.name}: its ending is {path.suffix!r}",
            f"give a geometry file among {list(SUFFIXES)}; mesh files are read by read_mesh",
        )
    if not path.is_file():
        raise ShapeError(f"there is no file {path}", "check the path")
    if size is not None and not (np.isfinite(size) and size > 0):
        raise ShapeError(f"the cell size is {size}", "give a positive length in the file's unit")
    if dim not in (None, 2, 3):
        raise ShapeError(f"dim is {dim}", "give 2 or 3")
    options = path.with_name(path.name + ".opt")  # gmsh reads it by itself, as a script
    for script in (path, options):
        if (script is options and script.is_file()) or script.suffix.lower() in SCRIPTS:
            check_script(script, path.resolve().parent)


# -- scripts -----------------------------------------------------------------------------------


def check_script(path: Path, folder: Path, seen: frozenset[Path] = frozenset()) -> None:
    """Refuse a gmsh script, or one that it reads, that acts outside the model or ``folder``."""
    path = path.resolve()
    if path in seen:
        raise ShapeError(f"{path.name} includes itself", "remove the circular Include")
    text = path.read_text(encoding="utf-8", errors="replace")
    bare = _COMMENT_OR_TEXT.sub(lambda m: _blank(m[0]), text)
    for pattern, deed in _FORBIDDEN.items():
        if found := re.search(rf"(?<![\w.]){pattern}", bare):
            line = bare.count("\n", 0, found.start()) + 1
            raise ShapeError(
                f"{path.name} is refused: line {line} has {found[0].split('(')[0].strip()!r}, "
                f"which {deed}",
                "a geometry file should only describe a geometry; remove the command",
            )
    for target in _read_by(path, text, bare):
        if not target.is_relative_to(folder):
            raise ShapeError(
                f"{path.name} is refused: it reads {target.name} from outside its own folder",
                "copy the file beside the script",
            )
        if target.is_file() and target.suffix.lower() not in _DATA:
            check_script(target, folder, seen | {path})


def _read_by(path: Path, text: str, bare: str) -> Iterator[Path]:
    """Files that a script reads; their names must be plain texts, or nobody can check them."""
    for found in _READ.finditer(bare):
        named = _NAMED.match(text, found.end())
        if not named:
            line = bare.count("\n", 0, found.start()) + 1
            raise ShapeError(
                f"{path.name} is refused: {found[0]} in line {line} has a computed file name",
                "write the name of the file as a plain text",
            )
        yield (path.parent / named[1]).resolve()


def _blank(piece: str) -> str:
    """Comments and texts as spaces of the same length, so that positions and lines stay."""
    hidden = re.sub(r"[^\n]", " ", piece)
    return hidden if piece[0] == "/" else piece[0] + hidden[1:-1] + piece[-1]


# -- from the file to raw cells ----------------------------------------------------------------


def _open(gmsh: Any, path: Path, size: Number | None) -> list[str]:
    """Read the geometry into the empty model and set the size; returns notes."""
    _read(gmsh, path.resolve())
    notes = []
    if path.suffix.lower() == ".stl":
        lower, upper = np.reshape(gmsh.model.getBoundingBox(-1, -1), (2, 3))
        if size is None:
            size = float(np.linalg.norm(upper - lower)) / STL_CELLS_ACROSS
            notes.append(f"no cell size was given; {size:.3g} was taken")
        gmsh.model.mesh.classifySurfaces(STL_EDGE_ANGLE, True, True, np.pi)
        gmsh.model.mesh.createGeometry()
        surfaces = [tag for _, tag in gmsh.model.getEntities(2)]
        gmsh.model.geo.addVolume([gmsh.model.geo.addSurfaceLoop(surfaces)])
        gmsh.model.geo.synchronize()
    elif path.suffix.lower() not in SCRIPTS:
        gmsh.model.occ.synchronize()
    if size is not None:
        gmsh.option.setNumber("Mesh.MeshSizeFromPoints", 0)
        gmsh.option.setNumber("Mesh.MeshSizeMax", size)
    return notes


def _read(gmsh: Any, path: Path) -> None:
    """Open the file as a model of its own.

    gmsh's parser outlives gmsh.finalize: ``merge`` would see the macros of scripts read before
    (``open`` does not), and after an error the unread rest of a script is the beginning of the next
    one. So that rest is read to its end, into this model, which is thrown away.
    """
    gmsh.parser.clear()
    try:
        gmsh.open(str(path))
    except Exception:
        with TemporaryDirectory() as folder:
            nothing = Path(folder) / "nothing.geo"
            nothing.write_text("// nothing\n")
            for _ in range(PARSER_BUFFER):
                try:
                    gmsh.merge(str(nothing))
                except Exception:  # one more error in the rest; each takes some of it
                    continue
                break
        raise


def _raw(gmsh: Any, dim: int, notes: list[str]) -> RawMesh:
    model = gmsh.model
    tags, coordinates, _ = model.mesh.getNodes()
    number = np.zeros(int(tags.max()) + 1, dtype=np.int64)
    number[tags.astype(np.int64)] = np.arange(len(tags))

    def blocks(d: int, entities: Sequence[int]) -> list[tuple[str, ndarray]]:
        found: dict[str, list[ndarray]] = {}
        for entity in entities:
            kinds, _, nodes = model.mesh.getElements(d, entity)
            for kind, flat in zip(kinds, nodes, strict=True):
                name, _, _, width, _, corners = model.mesh.getElementProperties(kind)
                rows = number[flat.astype(np.int64)].reshape(-1, width)[:, :corners]
                found.setdefault(_FAMILIES[name.split()[0]], []).append(rows)
        return [(kind, np.concatenate(rows)) for kind, rows in found.items()]

    physical = {
        d: {tag: model.getEntitiesForPhysicalGroup(d, tag).tolist() for _, tag in found}
        for d in (dim - 1, dim)
        if (found := model.getPhysicalGroups(d))
    }
    everything = [tag for _, tag in model.getEntities(dim)]
    domain = sorted({tag for tags in physical.get(dim, {0: everything}).values() for tag in tags})
    pairs = [(dim, tag) for tag in domain]
    # Faces of all entities of the domain, interfaces too; a group on none of them is scaffolding.
    sides = {tag for _, tag in model.getBoundary(pairs, combined=False, oriented=False)}
    named = {}
    for tag, entities in physical.get(dim - 1, {}).items():
        name = model.getPhysicalName(dim - 1, tag) or f"group_{tag}"
        if on_domain := [entity for entity in entities if entity in sides]:
            named[name] = on_domain
        else:
            notes.append(f"group {name!r} does not bound the domain and was dropped")
    if not named:
        kind = "curve" if dim == 2 else "surface"
        boundary = model.getBoundary(pairs, combined=True, oriented=False)
        named = {f"{kind}_{tag}": [tag] for _, tag in sorted(set(boundary))}
        notes.append(
            f"the file names no boundary; each of its {len(named)} boundary {kind}s is a group "
            f"of its own"
        )
    groups = {name: blocks(dim - 1, entities) for name, entities in named.items()}
    return RawMesh(coordinates.reshape(-1, 3), blocks(dim, domain), groups, notes=tuple(notes))
