"""Random networks: a static description with laws, that draws parameters.

A network here is its hidden layers: ``h = z @ W + b``, ``z' = phi(h)``, W of shape
``(fan_in, fan_out)``. One description drives the sampler, the propagation and the exact passes, so
the scaling convention (weights divided by ``sqrt(fan_in)``) is applied to drawn weights in one
place, ``LayerSpec.weight_scale``; closed forms (``theory``) and ``training.add_noise`` state it
again for themselves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxexpr import activations, laws, prng
from jaxexpr._core import checks
from jaxexpr._core.calls import elsewhere, explained
from jaxexpr._core.spellings import ATTRIBUTES
from jaxexpr._core.sweeps import over_sweep
from jaxexpr._core.x64 import precision
from jaxexpr.curves import Curve, as_curve
from jaxexpr.layers import PlacedDense
from jaxexpr.params import Params, fitting, pairs_of, precision_of, to_array


class LayerSpec(NamedTuple):
    """The laws of one layer: a pytree of scalars."""

    weights: laws.Law
    biases: laws.Law

    def weight_scale(self, fan_in: int, dtype: jnp.dtype) -> jax.Array:
        """Factor of an unscaled matrix: the law's scale over ``sqrt(fan_in)``."""
        return jnp.asarray(self.weights.scale, dtype) / math.sqrt(fan_in)

    def draw_unit(
        self, seed: prng.Seed, layer: ArrayLike, fan_in: int, fan_out: int, dtype: jnp.dtype
    ) -> jax.Array:
        """Draw the matrix of `layer`, index from 0, of the network of `seed`, without its scale.

        Sweep cells that differ only in scale share it.
        """
        words = prng.words(prng.child(seed, layer, 0), (fan_in, fan_out))
        return laws.unit_of(self.weights, words, dtype)

    def draw_biases(
        self, seed: prng.Seed, layer: ArrayLike, fan_out: int, dtype: jnp.dtype
    ) -> jax.Array:
        """Draw the biases of `layer`, shape ``(fan_out,)``."""
        return self.biases.draw(prng.child(seed, layer, 1), (fan_out,), dtype)


class Run(NamedTuple):
    """A group of consecutive layers of equal size and kind of law, computed in one loop.

    first, layers : index of the first layer, and number of layers.
    op : the placed layer (``layers``), equal for all of them.
    """

    first: int
    layers: int
    op: Any


def _per_layer(name: str, value: object, depth: int) -> tuple[laws.Law, ...]:
    if isinstance(value, laws.Law):
        return (laws.as_law(name, value),)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != depth:
            raise ValueError(
                f"{name} has {len(value)} entries for {depth} layers: give one law, or {depth}"
            )
        return tuple(laws.as_law(f"{name}[{i}]", law) for i, law in enumerate(value))
    return (laws.as_law(name, value),)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Network:
    """Base class of random networks: layers on rows of numbers, and the laws of their parameters.

    Attributes
    ----------
    input_shape : shape of an input.
    ops : the layers, placed (``layers``).
    weights, biases : a law for all layers that have weights, or one for each of them.
    activation, dtype : as for ``MLP``.
    """

    input_shape: tuple[int, ...]
    ops: tuple[Any, ...]
    weights: tuple[laws.Law, ...]
    biases: tuple[laws.Law, ...]
    activation: activations.Activation
    dtype: str

    def _describe(
        self,
        input_shape: tuple[int, ...],
        ops: tuple[Any, ...],
        weights: laws.Law | Sequence[laws.Law],
        biases: laws.Law | Sequence[laws.Law],
        activation: str | activations.Activation,
        dtype: DTypeLike,
    ) -> None:
        """Check and set the fields."""
        drawn = sum(hasattr(op, "fan_in") for op in ops)
        name = checks.floating("dtype", dtype)
        values = (
            input_shape,
            ops,
            _per_layer("weights", weights, drawn),
            _per_layer("biases", biases, drawn),
            activations.get(activation),
            name,
        )
        self._set(values)
        _ = self.sweep_shape
        for side, side_laws in (("weights", self.weights), ("biases", self.biases)):
            for leaf in jax.tree.leaves(side_laws):
                checks.held(side, leaf, name)

    def tree_flatten(self) -> tuple[Any, Any]:
        static = (self.input_shape, self.ops, self.activation, self.dtype)
        return (self.weights, self.biases), static

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], children: Iterable[Any]) -> Self:
        net = object.__new__(cls)
        shape, ops, activation, dtype = static
        net._set((shape, ops, *children, activation, dtype))
        return net

    def _set(self, values: tuple[Any, ...]) -> None:
        for field, value in zip(dataclasses.fields(Network), values, strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers in the input and in the output of each layer."""
        return (math.prod(self.input_shape), *(op.units for op in self.ops))

    @property
    def depth(self) -> int:
        """Number of layers d."""
        return len(self.ops)

    @property
    def units(self) -> int:
        """Number of units in all layers."""
        return sum(self.widths[1:])

    @property
    def widest(self) -> int:
        """Number of entries of the largest weight matrix."""
        return max(op.fan_in * op.outputs for op in self.ops if hasattr(op, "fan_in"))

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, (self.input_shape, *(op.shape for op in self.ops))))
        sizes = str(self.widths) if isinstance(self, MLP) else sizes
        shown = [checks.shown(x[0] if len(x) == 1 else x) for x in (self.weights, self.biases)]
        return (
            f"{type(self).__name__}({sizes}, {shown[0]}, {shown[1]}, {self.activation.name!r}, "
            f"dtype={self.dtype!r})"
        )

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """The static fields: all but the numbers in the laws."""
        return self.input_shape, self.ops, self.dtype

    @property
    def sweep_shape(self) -> tuple[int, ...]:
        """Broadcast shape of all the numbers in the laws; ``()`` without a sweep."""
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(self)]
        try:
            return np.broadcast_shapes(*shapes, ())
        except ValueError:
            raise ValueError(
                f"weights and biases hold arrays of shapes {shapes} that do not broadcast: "
                "give each sweep an axis of its own, such as sigma[:, None] and density[None, :]"
            ) from None

    def layer(self, index: int) -> LayerSpec:
        """Laws of the layer with this index, from 0; it must have weights."""
        position = sum(hasattr(op, "fan_in") for op in self.ops[:index])
        weights = self.weights[position if len(self.weights) > 1 else 0]
        biases = self.biases[position if len(self.biases) > 1 else 0]
        return LayerSpec(weights, biases)

    def runs(self) -> list[Run]:
        """Divide the layers into groups of consecutive ones of equal size and kind of law."""
        runs: list[Run] = []
        kind = None
        for i, op in enumerate(self.ops):
            drawn = hasattr(op, "fan_in")
            previous, kind = kind, (op, jax.tree.structure(self.layer(i))) if drawn else None
            if runs and kind is not None and previous == kind:
                runs[-1] = runs[-1]._replace(layers=runs[-1].layers + 1)
            else:
                runs.append(Run(i, 1, op))
        return runs

    @explained
    def init(self, key: jax.Array) -> Params:
        """Draw the parameters of one network.

        Returns a tuple of ``(W, b)``, one for each layer that has weights: W of shape
        ``sweep + (fan_in, fan_out)``, or ``sweep + (kernel, kernel, channels, features)`` of a
        convolution, b ``sweep + (fan_out,)``. It is the very network that ``kernel`` measures with
        this key.
        """
        checks.random_key("key", key)

        def draw(net: Network) -> Params:
            dtype = jnp.dtype(net.dtype)
            seed, params = prng.seed(key), []
            for i, op in enumerate(net.ops):
                if not hasattr(op, "fan_in"):
                    continue
                spec = net.layer(i)
                unit = spec.draw_unit(seed, i, op.fan_in, op.outputs, dtype)
                weights = spec.weight_scale(op.fan_in, dtype) * unit
                biases = spec.draw_biases(seed, i, op.outputs, dtype)
                params.append((weights.reshape(op.weights_shape), biases))
            return tuple(params)

        with precision(self.dtype):
            return over_sweep(draw)(self)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class MLP(Network):
    """A random fully connected network.

    Parameters
    ----------
    widths : ``(n_in, k_1, ..., k_d)``: input dimension, then the width of each hidden layer.
    weights, biases : a law, or a sequence of d laws. Weights are divided by ``sqrt(fan_in)``,
        biases are taken as they are. Arrays in the laws are a sweep: they broadcast together
        and lead every result.
    activation : a name (relu, leaky_relu, hard_tanh, tanh, erf, abs, linear) or an
        ``Activation``.
    dtype : ``"float32"`` or ``"float64"``, the precision of everything computed with this
        network, products included. Both precisions see the same draw.

    Raises
    ------
    ValueError
        naming the argument, for widths below 1, fewer than one layer, a law that is none, an
        unknown activation, a precision other than these two, sweeps that do not broadcast.

    Examples
    --------
    >>> net = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero(), "relu")
    >>> [(W.shape, b.shape) for W, b in net.init(jax.random.key(0))]
    [((2, 8), (8,)), ((8, 8), (8,))]
    """

    @explained
    def __init__(
        self,
        widths: Sequence[int],
        weights: laws.Law | Sequence[laws.Law],
        biases: laws.Law | Sequence[laws.Law],
        activation: str | activations.Activation = "relu",
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        if not isinstance(widths, Sequence | np.ndarray) or isinstance(widths, str):
            raise ValueError(
                f"widths={checks.shown(widths)}: give a sequence (n_in, k_1, ..., k_d)"
            )
        sizes = tuple(checks.integer(f"widths[{i}]", w) for i, w in enumerate(widths))
        if len(sizes) < 2:
            raise ValueError(
                f"widths={checks.shown(sizes)} has no layer: give (n_in, k_1, ..., k_d) with d >= 1"
            )
        pairs = zip(sizes, sizes[1:], strict=False)
        ops = tuple(PlacedDense(fan_in, width) for fan_in, width in pairs)
        self._describe(sizes[:1], ops, weights, biases, activation, dtype)

    if not TYPE_CHECKING:
        __getattr__ = elsewhere("MLP", ATTRIBUTES["MLP"])


def validate_for(
    net: Network, params: Params, curve: Curve, *, networks: bool = False
) -> tuple[Params, Curve, activations.Activation, str]:
    """As ``params.validate``, of the parameters of a network whose layers are those of `net`."""
    arrays = fitting_params(net, params, networks=networks)
    curve = fitting("net.input_shape", net.input_shape, as_curve("curve", curve))
    return arrays, curve, net.activation, precision_of(arrays)


def fitting_params(net: Network, params: Params, *, networks: bool = False) -> Params:
    """Return the parameters of a network whose layers are those of `net`, checked.

    networks : whether all arrays may share a leading axis, one entry a network.
    """
    if not isinstance(net, Network):
        raise ValueError(f"net={checks.shown(net)}: give the ConvNet or MLP that params are of")
    pairs = [op for op in net.ops if hasattr(op, "fan_in")]
    held = pairs_of(params)
    if len(held) != len(pairs):
        raise ValueError(
            f"params={checks.shown(params)} holds {len(held)} pairs: give {len(pairs)} pairs "
            "(W, b), one for each layer of net that has weights"
        )
    lead: tuple[int, ...] = ()
    if networks and held and np.ndim(held[0][0]) == len(pairs[0].weights_shape) + 1:
        lead = np.shape(held[0][0])[:1]
    for i, ((weights, biases), op) in enumerate(zip(held, pairs, strict=True)):
        for place, array, shape in ((0, weights, op.weights_shape), (1, biases, (op.outputs,))):
            found, asked = np.shape(checks.numeric(f"params[{i}][{place}]", array)), lead + shape
            if found != asked:
                raise ValueError(f"params[{i}][{place}] has shape {found}: net asks for {asked}")
    return tuple((to_array(w), to_array(b)) for w, b in held)
