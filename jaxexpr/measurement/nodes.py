"""Nodes: the parameters at which a curve is evaluated."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxexpr._core.linalg import norms
from jaxexpr._core.shapes import Array, Float, Shaped
from jaxexpr.curves import Curve


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Nodes of a curve: their parameters, and the share of the domain that each represents.

    ``Nodes("tangent", m)`` are the m midpoints of equal parts of the domain, with tangents;
    ``Nodes("grid", m)`` are m equally spaced points, both end points included, joined by straight
    segments.
    """

    kind: str
    count: int

    def parameters(self, curve: Curve) -> Float[np.ndarray, "{self.count}"]:
        """Parameters of the nodes, shape ``(count,)``, float64."""
        low, high = curve.domain
        if self.kind == "grid":
            return np.linspace(low, high, self.count)
        return low + (np.arange(self.count) + 0.5) * (high - low) / self.count

    def shares(self) -> Float[np.ndarray, "segments"]:
        """Share of the domain for each tangent, or for each segment of a grid; the sum is 1."""
        count = self.count - 1 if self.kind == "grid" else self.count
        return np.full(count, 1.0 / count)

    def coarser_shares(self) -> Float[np.ndarray, "thinned"]:
        """Shares of the domain for the nodes that ``thin`` selects."""
        if self.kind == "grid":
            return np.diff([*range(0, self.count - 1, 2), self.count - 1]) / (self.count - 1)
        count = max(self.count // 3, 1)
        shares = np.full(count, 3.0 / self.count)
        shares[-1] += 1 - shares.sum()
        return shares

    def thin(self, rows: Shaped[Array, "m *k"]) -> Shaped[Array, "thinned *k"]:
        """Select the rows of a coarser set of nodes.

        Of tangents, every third one: it is the midpoint of a part three times as long. Of a grid,
        every second point and the last one.
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
    ) -> tuple[Float[Array, "segments"], Float[Array, "thinned"]]:
        """Lengths of the segments of a curve's image: at all nodes, and at the thinned ones.

        Parameters
        ----------
        span : length of the domain.
        points, tangents : of the image at all nodes; a grid has no tangents.
        """
        if tangents is None:
            ends = self.thin(points)
            return norms(points[1:] - points[:-1]), norms(ends[1:] - ends[:-1])
        speeds = norms(tangents)
        fine, coarse = (
            np.asarray(shares * span, speeds.dtype)
            for shares in (self.shares(), self.coarser_shares())
        )
        return speeds * fine, self.thin(speeds) * coarse
