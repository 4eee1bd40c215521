"""Reactions: what the equation leaves at the nodes, and which fields it conserves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import flow_runs
import training_runs as runs
from geonew.data.families.flow import flow_problem
from geonew.evaluate.physics import reaction_defects
from geonew.features import FeatureSpec
from geonew.fem.reference import solve_poisson
from geonew.model.certificate import physical_balance
from geonew.model.reactions import conserved_fields, group_nodes, nodal_reactions, total_load
from geonew.model.sample import Sample, to_lab
from geonew.problem import Problem, Term
from geonew.train.samples import prepare_record

SPEC = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False, torsion=False)
# Reference values and lengths that are not 1: the balance is in the user's units.
PROBLEM = replace(runs.PROBLEM, reference_length=0.3).with_references({"u": 0.7})


def sample(degree: int = 1, problem: Problem = PROBLEM) -> Sample:
    """Poisson, solved with elements of a degree on the sample's own mesh."""
    one = runs.record(3)
    values = {g: float(v["u"][0, 0]) for g, v in one.boundary.items()}
    source = float(one.sources["u"][0])
    truth = solve_poisson(one.mesh, dirichlet=values, source=source, degree=degree)
    return prepare_record(replace(one, fields={"u": truth.values}), problem, SPEC)


def test_what_sources_bring_goes_through_the_boundary():
    """A solution on the very mesh: r vanishes inside, and its sum is the load, in user's units."""
    one = sample()
    truth = to_lab(one, one.target)
    forces = nodal_reactions(one, truth)["u"]
    inside = np.setdiff1d(np.arange(one.n_nodes), group_nodes(one))
    assert np.abs(forces[inside]).max() < 1e-12 * np.abs(forces).max()
    source = float(runs.record(3).sources["u"][0])
    load = total_load(one, "u")
    assert load == pytest.approx(source * one.mesh.volume)
    by_group = physical_balance(one, truth).reaction["u"]
    assert sum(value[0] for value in by_group.values()) == pytest.approx(-load[0])
    assert conserved_fields(one) == ("u",)
    found, own = reaction_defects(one, truth, truth)["u"]
    assert found == own < 1e-12


def test_a_defect_is_what_is_lost_inside():
    one = sample(degree=2)
    truth = to_lab(one, one.target)
    bent = truth + 0.5 * ~one.fixed
    inside = np.setdiff1d(np.arange(one.n_nodes), group_nodes(one))
    lost = [abs(nodal_reactions(one, u)["u"][inside].sum()) for u in (bent, truth)]
    true = nodal_reactions(one, truth)["u"][group_nodes(one)]
    through = (np.abs(true).sum() + np.abs(total_load(one, "u")).sum()) / 2
    found, own = reaction_defects(one, truth, bent)["u"]
    assert (found, own) == pytest.approx((lost[0] / through, lost[1] / through))
    assert own < 0.1, "the truth at the nodes of a coarse mesh has a small one of its own"
    assert found > 2 * own
    failed, again = reaction_defects(one, truth, np.full_like(truth, np.inf))["u"]
    assert np.isnan(failed)
    assert again == own


def test_a_term_that_resists_a_constant_conserves_nothing():
    resisting = replace(PROBLEM, terms=(*PROBLEM.terms, Term("mass", ("u",))))
    one = sample(problem=resisting)
    truth = to_lab(one, one.target)
    assert conserved_fields(one) == ()
    assert reaction_defects(one, truth, truth) == {}
    assert set(physical_balance(one, truth).reaction["u"]) == {"hole", "outside"}


def test_slow_flow_conserves_momentum_and_its_pressure_nothing():
    stokes = prepare_record(flow_runs.record(0), flow_runs.PROBLEM, SPEC)
    assert conserved_fields(stokes) == ("velocity",)
    inertia = flow_problem(
        "boxes", flow_runs.FLUID, speed=1.0, pressure=4.0, walls=("wall",), convection=True
    )
    assert conserved_fields(replace(stokes, problem=inertia)) == ()


def test_corners_count_once():
    stokes = prepare_record(flow_runs.record(0), flow_runs.PROBLEM, SPEC)
    nodes = [stokes.mesh.nodes_of(group) for group in stokes.mesh.groups]
    assert len(group_nodes(stokes)) < sum(map(len, nodes))
    assert set(group_nodes(stokes)) == set(np.concatenate(nodes))
