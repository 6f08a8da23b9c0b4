"""Names for annotations that say the shape and the kind of an array.

``Float[Array, "networks depth"]`` is an array of two axes: jaxtyping's where that is installed,
so that tests can check it, and plain ``Array`` elsewhere. Nothing looks at them at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Num", "Shaped", "UInt32"]

Array = jax.Array

if TYPE_CHECKING:  # as jaxtyping declares them: a type checker reads the array, not the shape
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

        class _OfAnyShape:
            """What stands for jaxtyping's names: subscribed, it is the array's own type."""

            def __class_getitem__(cls, item):
                return item[0]

        Bool = Float = Int = Key = Num = Shaped = UInt32 = _OfAnyShape
