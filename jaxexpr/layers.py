"""Layers of a network on rows of numbers: fully connected, convolutional, and pooling.

A user writes ``Conv(32)``, ``Pool(2)``, ``Dense(100)``; a network *places* each on its input
images, which determines all sizes. Internally, images are rows: an image ``(height, width,
channels)`` is one row of ``height * width * channels`` numbers, channels fastest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import dot

Image = tuple[int, ...]


@explained
@dataclasses.dataclass(frozen=True)
class Dense:
    """A fully connected layer with this number of units.

    Raises
    ------
    ValueError
        if `units` is no integer >= 1.
    """

    units: int

    def __post_init__(self) -> None:
        checks.integer("units", self.units)

    def placed(self, name: str, shape: Image) -> PlacedDense:
        return PlacedDense(math.prod(shape), self.units)


@explained
@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolutional layer; each feature has a square kernel on all channels.

    Parameters
    ----------
    features : channels of the output image.
    kernel : height and width of the kernels.
    stride : steps between two positions of a kernel.
    padding : ``"same"`` (zeros around the image, odd kernels) or ``"valid"`` (none).

    Raises
    ------
    ValueError
        for sizes below 1, an unknown padding, and an even kernel with ``"same"``.
    """

    features: int
    kernel: int = 3
    stride: int = 1
    padding: str = "same"

    def __post_init__(self) -> None:
        for name in ("features", "kernel", "stride"):
            checks.integer(name, getattr(self, name))
        checks.one_of("padding", self.padding, ("same", "valid"))
        if self.padding == "same" and self.kernel % 2 == 0:
            raise ValueError(
                f"kernel={self.kernel} is even and has no middle to put zeros around: give an odd "
                "kernel, or padding='valid'"
            )

    def placed(self, name: str, shape: Image) -> PlacedConv:
        height, width, channels = _image_shape(name, shape)
        edge = self.kernel // 2 if self.padding == "same" else 0
        for side, size in (("height", height), ("width", width)):
            _fits(name, side, size + 2 * edge, "kernel", self.kernel, self.stride)
        return PlacedConv((height, width, channels), self.features, self.kernel, self.stride, edge)


@explained
@dataclasses.dataclass(frozen=True)
class Pool:
    """A pooling layer: the largest, or the mean, of each window of each channel.

    Parameters
    ----------
    size : height and width of the windows.
    stride : steps between two windows; by default `size`, so that they tile the image.
    kind : ``"max"`` or ``"mean"``.

    Raises
    ------
    ValueError
        for sizes below 1 and an unknown kind.
    """

    size: int = 2
    stride: int | None = None
    kind: str = "max"

    def __post_init__(self) -> None:
        checks.integer("size", self.size)
        if self.stride is not None:
            checks.integer("stride", self.stride)
        checks.one_of("kind", self.kind, ("max", "mean"))

    def placed(self, name: str, shape: Image) -> PlacedPool:
        height, width, channels = _image_shape(name, shape)
        stride = self.size if self.stride is None else self.stride
        for side, size in (("height", height), ("width", width)):
            _fits(name, side, size, "pool", self.size, stride)
        return PlacedPool((height, width, channels), self.size, stride, self.kind)


Layer = Dense | Conv | Pool


def _image_shape(name: str, shape: Image) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(
            f"{name} needs images (height, width, channels) and gets {shape}: put it below the "
            "first Dense layer"
        )
    return (shape[0], shape[1], shape[2])


def _fits(name: str, side: str, size: int, kind: str, window: int, stride: int) -> None:
    """Raise ValueError for windows that do not end where the image does."""
    if window > size:
        raise ValueError(
            f"{name}: a {kind} of size {window} on an image of {side} {size}: give a smaller one"
        )
    over = (size - window) % stride
    if over:
        raise ValueError(
            f"{name}: a {kind} of size {window} with stride {stride} leaves {over} of {side} "
            f"{size} over: choose sizes so that stride divides {side} - size"
        )


@dataclasses.dataclass(frozen=True)
class PlacedDense:
    """``rows @ W``: from ``(r, fan_in)`` to ``(r, units)``."""

    fan_in: int
    units: int

    @property
    def shape(self) -> Image:
        """Shape of the output image."""
        return (self.units,)

    @property
    def outputs(self) -> int:
        """Columns of W."""
        return self.units

    @property
    def weights_shape(self) -> Image:
        """Shape of the weights in ``params``."""
        return (self.fan_in, self.units)

    @property
    def coverage(self) -> int:
        """Largest number of sums that contain an entry of the input image, for each output."""
        return 1

    def product(self, weights: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """Return the function that multiplies rows by W ``(fan_in, outputs)``."""
        return lambda rows: dot(rows, weights)

    def spread(self, biases: jax.Array) -> jax.Array:
        """Repeat the biases: one for each unit."""
        return biases

    def patches(self, rows: jax.Array) -> jax.Array:
        """Inputs of the sum at each position: ``(r, positions, fan_in)``."""
        return rows[:, None]


@dataclasses.dataclass(frozen=True)
class PlacedConv:
    """A convolution on images of one size."""

    below: tuple[int, int, int]
    outputs: int
    kernel: int
    stride: int
    edge: int

    @property
    def shape(self) -> Image:
        sides = (1 + (n + 2 * self.edge - self.kernel) // self.stride for n in self.below[:2])
        return (*sides, self.outputs)

    @property
    def units(self) -> int:
        return math.prod(self.shape)

    @property
    def fan_in(self) -> int:
        return self.kernel**2 * self.below[2]

    @property
    def weights_shape(self) -> Image:
        return (self.kernel, self.kernel, self.below[2], self.outputs)

    @property
    def coverage(self) -> int:
        return _overlap(self.kernel, self.stride, self.shape)

    def product(self, weights: jax.Array) -> Callable[[jax.Array], jax.Array]:
        kernels = weights.reshape(self.weights_shape)

        def convolved(rows: jax.Array) -> jax.Array:
            images = rows.reshape(-1, *self.below)
            result = lax.conv_general_dilated(
                images,
                kernels,
                (self.stride, self.stride),
                [(self.edge, self.edge)] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                precision=lax.Precision.HIGHEST,
                preferred_element_type=rows.dtype,
            )
            return result.reshape(rows.shape[0], self.units)

        return convolved

    def product_in_loops(self, weights: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """As ``product``, by a matrix product for each row of the kernel.

        XLA's CPU code for a convolution is an order of magnitude slower inside a loop than outside;
        that for matrix products is not.
        """
        kernels = weights.reshape(self.kernel, self.kernel * self.below[2], self.outputs)
        high, wide = self.shape[:2]
        across, down = self.stride * wide, self.stride * high

        def convolved(rows: jax.Array) -> jax.Array:
            edges = ((0, 0), (self.edge, self.edge), (self.edge, self.edge), (0, 0))
            images = jnp.pad(rows.reshape(-1, *self.below), edges)
            shifted = [images[:, :, j : j + across : self.stride] for j in range(self.kernel)]
            patches = jnp.concatenate(shifted, axis=-1)
            result = jnp.zeros((rows.shape[0] * high * wide, self.outputs), rows.dtype)
            for i in range(self.kernel):
                part = patches[:, i : i + down : self.stride]
                result = result + dot(part.reshape(result.shape[0], -1), kernels[i])
            return result.reshape(rows.shape[0], self.units)

        return convolved

    def spread(self, biases: jax.Array) -> jax.Array:
        return jnp.tile(biases, self.units // self.outputs)

    def patches(self, rows: jax.Array) -> jax.Array:
        images = rows.reshape(-1, *self.below)
        edges = ((0, 0), (self.edge, self.edge), (self.edge, self.edge), (0, 0))
        windows = _windows(jnp.pad(images, edges), self.kernel, self.stride)
        stacked = jnp.stack(windows, axis=-2)  # (r, height, width, kernel^2, channels)
        return stacked.reshape(rows.shape[0], -1, self.fan_in)


@dataclasses.dataclass(frozen=True)
class PlacedPool:
    """Pooling on images of one size: no weights, no biases, no activation."""

    below: tuple[int, int, int]
    size: int
    stride: int
    kind: str

    @property
    def shape(self) -> Image:
        sides = (1 + (n - self.size) // self.stride for n in self.below[:2])
        return (*sides, self.below[2])

    @property
    def units(self) -> int:
        return math.prod(self.shape)

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the pool."""
        overlap = _overlap(self.size, self.stride, self.shape)
        return math.sqrt(overlap) if self.kind == "max" else math.sqrt(overlap) / self.size

    def windows(self, rows: jax.Array) -> jax.Array:
        """Window of each unit: ``(size^2, r, units)``."""
        windows = _windows(rows.reshape(-1, *self.below), self.size, self.stride)
        return jnp.stack([x.reshape(rows.shape[0], self.units) for x in windows])

    def winners(self, rows: jax.Array) -> jax.Array | None:
        """Index in its window of each unit's maximum, ``(r, units)``; ``None`` for mean pools.

        Among equal entries it is the first.
        """
        if self.kind == "mean":
            return None
        return jnp.argmax(self.windows(rows), axis=0).astype(jnp.int32)

    def pooled(self, rows: jax.Array, winners: jax.Array | None) -> jax.Array:
        """Values, or derivatives, of the units: ``(r, units)``."""
        windows = self.windows(rows)
        if winners is None:
            return jnp.mean(windows, axis=0)
        return jnp.take_along_axis(windows, winners[None], axis=0)[0]


def _overlap(size: int, stride: int, shape: Image) -> int:
    """Largest number of windows that contain an entry; `shape` is that of the output image."""
    return math.prod(min(-(-size // stride), places) for places in shape[:2])


def _windows(images: jax.Array, size: int, stride: int) -> list[jax.Array]:
    """For each position in a window, the image of its entries in all windows."""
    height, width = (1 + (n - size) // stride for n in images.shape[1:3])
    return [
        images[:, i : i + stride * height : stride, j : j + stride * width : stride]
        for i, j in np.ndindex(size, size)
    ]


Placed: TypeAlias = PlacedDense | PlacedConv | PlacedPool
