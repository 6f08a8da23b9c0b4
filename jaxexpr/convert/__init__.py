"""Networks from elsewhere: Flax and PyTorch models, state dicts and lists of arrays, as ``params``.

All of them are chains of fully connected layers with one activation between two of them. A model
(``from_flax``, ``from_torch``) is called and compared with the chain; any other model is refused
and goes to ``jaxexpr.exact.pieces_of`` as it is. Arrays and state dicts do not hold the order of
use, the activation or skip connections: there, these are the caller's word.
"""

from jaxexpr.convert.arrays import from_arrays
from jaxexpr.convert.flax_models import from_flax
from jaxexpr.convert.state_dicts import from_torch_state
from jaxexpr.convert.torch_models import from_torch

__all__ = ["from_arrays", "from_flax", "from_torch", "from_torch_state"]
