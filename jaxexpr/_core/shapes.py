"""Names for annotations of the shape and the dtype of arrays.

``Float[Array, "networks depth"]`` is a floating-point array with two axes. If jaxtyping is
installed, these are its names, so that tests can check them; else they stand for ``Array``. Outside
the tests nothing checks them at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Num", "Shaped", "UInt32"]

Array = jax.Array

if TYPE_CHECKING:  # as jaxtyping declares them: type checkers ignore the shape
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
    from typing import Annotated as Key
    from typing import Annotated as Num
    from typing import Annotated as Shaped
    from typing import Annotated as UInt32
else:
    try:
        from jaxtyping import Bool, Float, Int, Key, Num, Shaped, UInt32
    except ImportError:

        class _AnyShape:
            """Replacement for jaxtyping's names: subscripting returns the array type."""

            def __class_getitem__(cls, item):
                return item[0]

        Bool = Float = Int = Key = Num = Shaped = UInt32 = _AnyShape
