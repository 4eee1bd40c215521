"""From a mesh file to written fields, beside the reference Navier-Stokes solve on that mesh.

    python benchmarks/end_to_end.py --json OUT

One thread, one warm process, medians of processor seconds. Ours: reading the .msh file, features,
model, certificate, familiarity and bands, writing the .vtu file. The reference: the solve alone
(Taylor-Hood, Newton), mesh and data in memory. Cold starts of the command line are wall-clock
seconds of a new process, with what it imported.

Keys: `speedup_over_reference` (ns2d-re at Re = 100, 4,000 nodes: the median over the meshes),
`speedup_at_reynolds_7` (ns2d-c++, all but linear: the reference takes fewer Newton steps, and the
model reads more features), `seconds`, `seconds_by_part`, `reference_seconds`, `cold_start_seconds`
(wall clock, without and with picture; on a busy machine see `cold_start_processor_seconds`),
`training_code_imported`; and, where there is a Chromium, those of benchmarks/page.py,
`page_drag_ms_median` (wall clock) among them.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geonew import weights
from geonew.data.families import family
from geonew.data.families.sizing import mesh_of
from geonew.inference.answer import compare, predict
from geonew.inference.inputs import Inputs, complete
from geonew.mesh import Mesh, read_mesh, write_mesh
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample, prepare
from geonew.shape import Shape
from page import browser, drag_latency

SLOW, VARIED = "ns2d-c++", "ns2d-re"
REYNOLDS = 100.0
NODES, TOLERANCE = 4000, 150


def make_mesh(seed: int) -> Mesh:
    """A channel with about 4,000 nodes; both families have the same shapes."""
    shape = Shape.from_dict(family(SLOW).draw("test", np.random.default_rng(seed)).shape)
    bounds = {"fewest": NODES - TOLERANCE, "most": NODES + TOLERANCE}
    return mesh_of(shape, "coarse", NODES, shape.area, **bounds)


def data_of(name: str, mesh: Mesh) -> Inputs:
    """What is prescribed: the family's own, and for the other one its profile at Re = 100."""
    problem = family(name).problem
    if name == SLOW:
        return complete(problem, mesh)
    nodes = mesh.nodes_of("inlet")
    y = mesh.points[nodes, 1]
    profile = np.stack([4 * y * (1 - y), 0 * y], axis=1)
    return complete(problem, mesh, {"inlet": {"velocity": profile}}, {"reynolds": REYNOLDS})


def median(run: Callable[[], Any], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return float(np.median(seconds))


def end_to_end(model: GeoNeW, mesh: Mesh, folder: Path, repeats: int) -> dict[str, Any]:
    file, out = folder / "mesh.msh", folder / "fields.vtu"
    write_mesh(file, mesh, overwrite=True)
    mesh = read_mesh(file)
    inputs = data_of(model.problem.name, mesh)
    given = {"boundary": inputs.boundary, "parameters": inputs.parameters}

    def features() -> Sample:
        return prepare(
            mesh, model.problem, inputs.boundary, spec=model.spec, parameters=inputs.parameters
        )

    sample, answer = features(), predict(model, mesh, **given)

    def whole() -> None:
        predict(model, read_mesh(file), **given).write(out, overwrite=True)

    # In turns, so that other jobs on the machine disturb both alike.
    ours, theirs = [], []
    whole()
    for _ in range(repeats):
        start = time.process_time()
        whole()
        ours.append(time.process_time() - start)
        theirs.append(compare(answer).reference.seconds)
    parts = {
        "reading": median(lambda: read_mesh(file), repeats),
        "features": median(features, repeats),
        "model and certificate": median(lambda: model.predict_samples([sample]), repeats),
        "writing": median(lambda: answer.write(out, overwrite=True), repeats),
    }
    seconds, reference = float(np.median(ours)), float(np.median(theirs[1:] or theirs))
    return {
        "nodes": mesh.n_nodes,
        "seconds": seconds,
        "seconds_by_part": parts,
        "reference_seconds": reference,
        "speedup": reference / seconds,
        "newton_steps": answer.certificate.steps,
        "converged": answer.certificate.converged,
    }


def cold_start(model: Path | str, mesh: Path, folder: Path, picture: bool) -> dict[str, Any]:
    """A new process of the command line: wall clock, and what it imported."""
    code = (
        "import sys\nfrom geonew.cli import main\ncode = main(sys.argv[1:])\n"
        "print('MODULES ' + ' '.join(sys.modules))\nraise SystemExit(code)"
    )
    command = [sys.executable, "-c", code, "predict", str(model), str(mesh), "--any-size"]
    command += ["--out", str(folder / "cold.vtu"), "--overwrite"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*command, *([] if picture else ["--no-png"])], capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    listed = [line for line in done.stdout.splitlines() if line.startswith("MODULES ")]
    if done.returncode not in (0, 1) or not listed:
        raise SystemExit(done.stdout + done.stderr)
    loaded = set(listed[0].split()[1:])
    training = {f"geonew.train.{m}" for m in ("loop", "optimiser", "setup", "state", "samples")}
    return {
        "seconds": seconds,
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "training": sorted(loaded & (training | {"pytorch_optimizer", "tensorboard", "h5py"})),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--meshes", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        meshes = [make_mesh(seed) for seed in range(options.meshes)]
        runs = {
            kind: [end_to_end(weights.load(kind), mesh, folder, options.repeats) for mesh in meshes]
            for kind in (VARIED, SLOW)
        }
        cold = {
            kind: [
                cold_start(SLOW, folder / "mesh.msh", folder, kind == "with_picture")
                for _ in range(3)
            ]
            for kind in ("without_picture", "with_picture")
        }
        page = drag_latency(SLOW) if browser() is not None else {}
    middle = sorted(runs[VARIED], key=lambda run: run["speedup"])[len(meshes) // 2]
    figures = {
        "speedup_over_reference": middle["speedup"],
        "speedup_at_reynolds_7": float(np.median([run["speedup"] for run in runs[SLOW]])),
        "seconds": middle["seconds"],
        "seconds_by_part": middle["seconds_by_part"],
        "reference_seconds": middle["reference_seconds"],
        **{
            f"cold_start_{what}": {
                kind: float(np.median([one[key] for one in tries])) for kind, tries in cold.items()
            }
            for what, key in (("seconds", "seconds"), ("processor_seconds", "processor"))
        },
        "training_code_imported": sorted(
            {m for t in cold.values() for one in t for m in one["training"]}
        ),
        **page,
        "runs": runs,
        "threads": 1,
        "torch": torch.__version__,
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
