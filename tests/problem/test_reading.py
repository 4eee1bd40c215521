"""JSON: exact round trips, and nothing but ProblemError for whatever else comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonew.errors import GeoNeWError, ProblemError
from geonew.problem import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Problem,
    Term,
)
from problems import EXAMPLES, block, poisson

GROUPS = ("inlet", "outlet", "wall", "Körper 2")
moderate = st.floats(1e-3, 1e3)
choice = st.sampled_from


@st.composite
def drawn(draw: st.DrawFn) -> dict:
    """Choices for a problem of one scalar and one vector field."""
    return {
        "name": draw(choice(["a", "Strömung", "two words"])),
        "groups": tuple(draw(st.permutations(GROUPS))),
        "on": draw(st.lists(choice(GROUPS), min_size=1, max_size=3, unique=True)),
        "axes": draw(st.none() | st.permutations(range(3)).map(tuple)),
        "level": draw(choice(["dirichlet", "gauge", "reaction"])),
        "sources": tuple(draw(st.lists(choice(["u", "p"]), unique=True))),
        "parameters": draw(st.lists(choice(["mu", "nu", "re"]), unique=True)),
        "support": draw(choice(["global", "nodal"])),
        "power": draw(st.floats(-2, 2)),
        "sizes": draw(st.lists(moderate, min_size=6, max_size=6)),
        "formula": draw(choice(["speed", "vorticity"])),
        "optional": tuple(draw(st.lists(choice(GROUPS), unique=True))),
        "energy": draw(st.none() | moderate),
    }


def declared(x: dict) -> Problem:
    """The problem of these choices."""
    on, sizes = x["on"], x["sizes"]
    parameters = tuple(Parameter(p, x["support"], "scalar", sizes[0]) for p in x["parameters"])
    return Problem(
        name=x["name"],
        dim=3,
        fields=(
            Field("p", "scalar", sizes[1], x["level"]),
            Field("u", "vector", sizes[2], "dirichlet", ("a", "b", "c")),
        ),
        groups=x["groups"],
        dirichlet=(
            *(Dirichlet("u", group, x["axes"]) for group in on),
            *((Dirichlet("p", on[0]),) if x["level"] == "dirichlet" else ()),
        ),
        neumann=tuple(Neumann("u", group) for group in GROUPS if group not in on),
        sources=x["sources"],
        parameters=parameters,
        terms=(
            Term("diffusion", ("u",), sizes[3], {p.name: x["power"] for p in parameters}),
            Term("divergence", ("p", "u"), sizes[4]),
        ),
        derived=(Derived("w", x["formula"], ("u",)),),
        frame=(FrameRule("normal", on[0]), FrameRule("gradient", "inlet", other="outlet")),
        harmonic=(("inlet", "outlet"),),
        optional_groups=x["optional"],
        reference_length=sizes[5],
        energy=x["energy"],
    )


@given(drawn())
def test_round_trip(choices: dict) -> None:
    problem = declared(choices)
    again = Problem.from_json(problem.to_json())
    assert again == problem
    assert again.to_json() == problem.to_json()
    assert hash(again) == hash(problem)


# -- hostile input -------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | choice(["u", "left", "diffusion", "vector", "velocity", "normal"])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | choice(["name", "field", "group"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def refused_or_sound(text: str) -> None:
    """Reading raises ProblemError, or gives a problem that survives a round trip."""
    try:
        problem = Problem.from_json(text)
    except ProblemError:
        return
    assert Problem.from_json(problem.to_json()) == problem


@settings(max_examples=100)
@given(st.text(max_size=40) | anything.map(json.dumps))
def test_arbitrary_text(text: str) -> None:
    refused_or_sound(text)


@settings(max_examples=300)
@given(choice(list(EXAMPLES)), st.data())
def test_damaged_problems(name: str, data: st.DataObject) -> None:
    """One value anywhere in a sound problem is replaced by anything, or dropped."""
    raw = json.loads(EXAMPLES[name]().to_json())
    holder, key = raw, data.draw(choice(sorted(raw)))
    while isinstance(holder[key], list | dict) and holder[key] and data.draw(st.booleans()):
        holder = holder[key]
        keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
        key = data.draw(choice(list(keys)))
    if data.draw(st.booleans()):
        holder[key] = data.draw(anything)
    else:
        del holder[key]
    refused_or_sound(json.dumps(raw))


def changed(change) -> str:
    raw = json.loads(poisson().to_json())
    change(raw)
    return json.dumps(raw)


def put(*path: str | int, value: object):
    def change(raw) -> None:
        for step in path[:-1]:
            raw = raw[step]
        raw[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"dim": ' + "9" * 5000 + "}", "not valid JSON: Exceeds the limit"),
        ("[]", "must be a JSON object, not a list"),
        ("null", "must be a JSON object, not null"),
        ('{"dim": 2, "dim": 3}', r"repeats the keys \['dim'\]"),
        ('{"schema": 99}', "has schema 99; this version of geonew reads 1"),
        ("{}", r"problem lacks the keys \['name', 'dim', 'fields', 'groups', 'dirichlet'\]"),
        (changed(put("colour", value=1)), r"problem has unknown keys \['colour'\]"),
        (changed(put("fields", 0, "unit", value="m")), r"problem\.fields\[0\] has unknown keys"),
        (changed(put("fields", value={})), r"problem\.fields must be a list, not an object"),
        (changed(put("fields", value=[3])), r"problem\.fields\[0\] must be a JSON object, not a w"),
        (changed(put("fields", 0, "name", value=3)), r"fields\[0\]\.name must be a text"),
        (changed(put("fields", 0, "rank", value="tensor")), r"fields\[0\]\.rank is 'tensor'; it m"),
        (changed(put("fields", 0, "rank", value=[])), r"fields\[0\]\.rank is \[\]; it must be"),
        (changed(put("fields", 0, "reference", value="1")), r"reference must be a number, not a t"),
        (changed(put("fields", 0, "reference", value=True)), "must be a number, not true or false"),
        (changed(put("fields", 0, "reference", value=10**400)), "is too large a number"),
        (changed(put("fields", 0, "reference", value=float("nan"))), "is nan; it must be finite"),
        (changed(put("fields", 0, "reference", value=0)), r"is 0\.0; it must be positive"),
        (changed(put("terms", 0, "coefficient", value=float("inf"))), "is inf; it must be finite"),
        (changed(put("terms", 0, "powers", value=[])), r"powers must be a JSON object, not a list"),
        (
            changed(put("terms", 0, "powers", value={"kappa": None})),
            r"powers\.kappa must be a",
        ),
        (changed(put("groups", value="left")), r"problem\.groups must be a list, not a text"),
        (changed(put("groups", 0, value=7)), r"problem\.groups\[0\] must be a text, not a whole"),
        (changed(put("harmonic", value=[["left"]])), r"harmonic\[0\] must have 2 entries, not 1"),
        (changed(put("dim", value=2.0)), r"problem\.dim must be a whole number, not a number"),
        (changed(put("dirichlet", 0, "axes", value=[0.5])), r"axes\[0\] must be a whole number"),
    ],
)
def test_messages_name_the_place(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Problem.from_json(text)


def test_whole_numbers_are_read_as_floats() -> None:
    problem = Problem.from_json(changed(put("fields", 0, "reference", value=3)))
    assert problem == poisson()
    assert isinstance(problem.fields[0].reference, float)
    assert issubclass(ProblemError, GeoNeWError)


def test_axes_come_back_as_tuples() -> None:
    again = Problem.from_json(block().to_json())
    assert again.dirichlet[1].axes == (2,)
