"""A model to serve, made in seconds, and a server to talk to."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from geonew.calibrate.calibration import KEY, Calibration
from geonew.calibrate.scale import default_scale
from geonew.features import FeatureSpec
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample, prepare
from geonew.problem import Problem
from geonew.serve.controls import Editor
from geonew.serve.editors import editor_of
from geonew.serve.situation import Situation
from geonew.train.checkpoint import ModelFile, save_model
from geonew.train.descriptor import Reference
from geonew.train.models import ModelChoice
from training_runs import environment

SPEC = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False, torsion=False)
CONFIG = ModelConfig(width=16, depth=1, anchors=16, partitions=6, contexts=2, law="none")


def sample_of(problem: Problem, situation: Situation) -> Sample:
    """What a model sees of a situation."""
    return prepare(
        situation.mesh,
        problem,
        situation.boundary,
        spec=SPEC,
        parameters=situation.parameters,
        source=situation.source,
        neumann=situation.neumann,
    )


def drawn(editor: Editor, seed: int) -> Situation:
    """A random situation."""
    draft = editor.draw(np.random.default_rng(seed), False)
    return editor.situation(draft.geometry, draft.values)


def untrained(path: Path, problem: Problem, *, calibrated: bool = True) -> Path:
    """A checkpoint of an untrained model, with a calibration by three samples of its family."""
    torch.manual_seed(0)
    samples = [sample_of(problem, drawn(editor_of(problem), seed)) for seed in range(3)]
    model = GeoNeW(problem, SPEC, samples[0].columns, CONFIG)
    model.normalise_tokens(samples)
    reference = Reference.fit(samples)
    about = ModelFile(
        choice=ModelChoice("geonew", CONFIG),
        problem=problem,
        spec=SPEC,
        columns=samples[0].columns,
        deviations=np.ones(problem.n_components),
        ranges={"geometry": reference.to_plain()},
    )
    names = dict.fromkeys((f.name for f in problem.fields), 0.5)
    made = Calibration(
        problem, np.array(problem.references), reference, default_scale(True), 0.9, names, names,
        np.sort([reference.distance(s) for s in samples]), True,
    )  # fmt: skip
    extra = {KEY: made.to_plain()} if calibrated else {}
    save_model(path, model, ModelFile(**{**about.__dict__, "extra": extra}))
    return path


@dataclass
class Running:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    address: str
    said: list[str] = field(default_factory=list)


@contextmanager
def running(folder: Path, *arguments: str, debug: bool = False) -> Iterator[Running]:
    """Start ``geonew serve`` and wait for its address."""
    start = [sys.executable, "-m", "geonew.cli", *(["--debug"] if debug else []), "serve"]
    process = subprocess.Popen(
        [*start, "--no-browser", "--port", "0", *arguments],
        env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    stderr = process.stderr
    listener = threading.Thread(target=lambda: said.extend(stderr), daemon=True)
    listener.start()
    try:
        line = process.stdout.readline()
        found = re.match(r"(http://\S+) serves", line)
        assert found, f"{line!r} {said}"
        yield Running(process, found[1], said)
    finally:
        process.terminate()  # not killed: it removes its workers' files
        process.wait(timeout=60)
        listener.join()
        process.stdout.close()
        process.stderr.close()
