"""Where along a curve a network is looked at."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxexpr._core.linalg import norms
from jaxexpr._core.shapes import Array, Float, Shaped
from jaxexpr.curves import Curve


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Where a curve is looked at: parameters, and the share of the curve each one stands for.

    ``Nodes("tangent", m)`` are the m midpoints of equal parts of the domain, with tangents;
    ``Nodes("grid", m)`` are m equally spaced points, both end points among them, joined by
    straight segments.
    """

    kind: str
    count: int

    def parameters(self, curve: Curve) -> Float[np.ndarray, "{self.count}"]:
        """Parameters of the nodes, shape ``(count,)``, float64."""
        low, high = curve.domain
        if self.kind == "grid":
            return np.linspace(low, high, self.count)
        return low + (np.arange(self.count) + 0.5) * (high - low) / self.count

    def shares(self) -> Float[np.ndarray, "pieces"]:
        """Share of the domain of each tangent, or of each segment; the sum is 1."""
        count = self.count - 1 if self.kind == "grid" else self.count
        return np.full(count, 1.0 / count)

    def coarser_shares(self) -> Float[np.ndarray, "fewer"]:
        """Shares of the nodes that ``thin`` keeps."""
        if self.kind == "grid":
            return np.diff([*range(0, self.count - 1, 2), self.count - 1]) / (self.count - 1)
        kept = max(self.count // 3, 1)
        shares = np.full(kept, 3.0 / self.count)
        shares[-1] += 1 - shares.sum()
        return shares

    def thin(self, rows: Shaped[Array, "m *k"]) -> Shaped[Array, "fewer *k"]:
        """Keep fewer of the nodes' rows.

        Every third tangent stands for its neighbours as well (the midpoints of parts three times
        as long); of a grid every second point is kept, and the last.
        """
        if self.kind == "grid":
            even = rows[::2]
            return even if self.count % 2 else jnp.concatenate([even, rows[-1:]])
        return rows[1 : 3 * (self.count // 3) : 3] if self.count >= 3 else rows[:1]

    def segments(
        self,
        span: float,
        points: Float[Array, "m k"],
        tangents: Float[Array, "m k"] | None,
    ) -> tuple[Float[Array, "pieces"], Float[Array, "fewer"]]:
        """Length of each piece of a curve's image, and of each piece between thinned nodes."""
        if tangents is None:
            ends = self.thin(points)
            return norms(points[1:] - points[:-1]), norms(ends[1:] - ends[:-1])
        speeds = norms(tangents)
        fine, rough = (np.asarray(s * span, speeds.dtype) for s in self._both_shares())
        return speeds * fine, self.thin(speeds) * rough

    def _both_shares(self) -> tuple[Float[np.ndarray, "pieces"], Float[np.ndarray, "fewer"]]:
        return self.shares(), self.coarser_shares()
