"""Which features a model sees: a frozen choice, saved with every checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from geonew.errors import FeatureError


@dataclass(frozen=True)
class FeatureSpec:
    """Which columns the tokens have; together with the problem it fixes their number and order.

    Args:
        labels: one column per boundary group.
        distance: distance to the boundary.
        group_distances: one more distance per boundary group.
        harmonic: harmonic coordinates of the problem's pairs of groups.
        torsion: torsion function of each distinct Dirichlet part. It is the answer for Poisson's
            equation with a constant load: leave it out of comparisons there.
        data: harmonic extension of the boundary data, in reference values. It is the answer for
            Laplace's equation: leave it out of comparisons there.
        hks_times: number of times of the heat kernel signature; 0 leaves it out.
        eigenpairs: number of Dirichlet eigenpairs it is summed from.
        hks_gradients: lengths of the gradients of the signature, and products at adjacent times.
        gradients: of distance, harmonic coordinates, torsion and data: components where there is a
            frame, lengths and products where there is none.
        coordinates: position in the frame, in reference lengths; only where there is a frame.

    """

    labels: bool = True
    distance: bool = True
    group_distances: bool = False
    harmonic: bool = True
    torsion: bool = True
    data: bool = True
    hks_times: int = 8
    eigenpairs: int = 64
    hks_gradients: bool = True
    gradients: bool = True
    coordinates: bool = False

    def __post_init__(self) -> None:
        _check_types({item.name: getattr(self, item.name) for item in fields(self)})
        if self.hks_times < 0 or self.eigenpairs < 1:
            raise FeatureError(
                f"hks_times is {self.hks_times} and eigenpairs is {self.eigenpairs}; "
                "they must be at least 0 and 1"
            )

    def to_json(self) -> str:
        """The choice as JSON."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> FeatureSpec:
        """Inverse of :meth:`to_json`; unknown keys are refused."""
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as error:
            raise FeatureError(f"the feature settings are not valid JSON: {error}") from error
        if not isinstance(raw, dict):
            raise FeatureError(f"feature settings must be an object, not {type(raw).__name__}")
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(raw) - known)
        if unknown:
            raise FeatureError(
                f"feature settings have unknown keys {unknown}", f"known keys are {sorted(known)}"
            )
        _check_types(raw)
        return cls(**raw)


def _check_types(settings: dict[str, object]) -> None:
    """A truth value is no number here, nor the other way round, whatever Python thinks."""
    for item in fields(FeatureSpec):
        wanted = bool if isinstance(item.default, bool) else int
        value = settings.get(item.name, item.default)
        if type(value) is not wanted:
            raise FeatureError(
                f"feature setting {item.name!r} is {value!r}; it must be a {wanted.__name__}"
            )
