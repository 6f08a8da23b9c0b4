"""Faces of a polyhedral complex in flat arrays: lists of facets, and signs packed into words."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
WORD = 64


class GrowableArray:
    """Rows of an array that grows at its end."""

    def __init__(self, rows: Array) -> None:
        self._buffer, self.size = rows.copy(), len(rows)

    @property
    def rows(self) -> Array:
        return self._buffer[: self.size]

    def extend(self, rows: Array) -> None:
        """Append `rows`."""
        size = self.size + len(rows)
        if size > len(self._buffer):
            buffer = np.empty(
                (max(size, 2 * self.size), *self._buffer.shape[1:]), self._buffer.dtype
            )
            buffer[: self.size] = self.rows
            self._buffer = buffer
        self._buffer[self.size : size] = rows
        self.size = size


def segments(start: Array, length: Array) -> tuple[Array, Array]:
    """Return segment and index of every entry of the segments, one segment after the other."""
    owner = np.repeat(np.arange(len(start)), length)
    shift = start - (np.cumsum(length) - length)
    return owner, np.arange(len(owner)) + shift[owner]


def pack_signs(bits: Array) -> Array:
    """Booleans ``(r, c)`` as words ``(r, w)`` of 64 bits, column 0 the lowest bit."""
    rows, columns = bits.shape
    words = max(1, -(-columns // WORD))
    packed = np.zeros((rows, 8 * words), np.uint8)
    packed[:, : -(-columns // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return packed.view("<u8")


def unpack(words: Array, columns: int) -> Array:
    """Invert the packing: words ``(r, w)`` to booleans ``(r, columns)``."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=columns, bitorder="little").astype(bool)


def _any(words: Array, start: Array) -> Array:
    """Bitwise or over the consecutive segments that begin at `start`."""
    joined = [np.bitwise_or.reduceat(words[:, w], start) for w in range(words.shape[1])]
    return np.stack(joined, axis=1)


class FacesOfDimension:
    """All faces of one dimension.

    Attributes
    ----------
    positive, negative : which columns are positive (negative) at a vertex of the face, packed.
    facets, start, length : the facets of face i are ``facets[start[i] : start[i] + length[i]]``.
    other_half, zero : during a cut, the - part of a crossed face (which becomes its + part), and
        the face between the two parts; `other_half` is -1 for all other faces.
    """

    def __init__(self, faces: list[list[int]] | int) -> None:
        size = faces if isinstance(faces, int) else len(faces)
        if not isinstance(faces, int):
            length = np.array([len(face) for face in faces], np.intp)
            self.length, self.start = (
                GrowableArray(length),
                GrowableArray(np.cumsum(length) - length),
            )
            self.facets = GrowableArray(np.array(list(itertools.chain(*faces)), np.intp))
        nothing = np.zeros((size, 1), np.uint64)
        self.positive, self.negative = GrowableArray(nothing), GrowableArray(nothing)
        self.other_half, self.zero = (
            GrowableArray(np.full(size, -1)),
            GrowableArray(np.full(size, -1)),
        )

    @property
    def size(self) -> int:
        return self.other_half.size

    def compact(self) -> None:
        """Remove lists of facets that are no longer used."""
        _, index = segments(self.start.rows, self.length.rows)
        self.facets = GrowableArray(self.facets.rows[index])
        self.start = GrowableArray(np.cumsum(self.length.rows) - self.length.rows)

    def collect_signs(self, below: FacesOfDimension) -> None:
        """Compute the signs from the facets; call ``compact`` before."""
        facets, start = self.facets.rows, self.start.rows
        self.positive = GrowableArray(_any(below.positive.rows[facets], start))
        self.negative = GrowableArray(_any(below.negative.rows[facets], start))

    def means(self, rows: Array) -> Array:
        """Means over the facets of each face; call ``compact`` before."""
        facets, start = self.facets.rows, self.start.rows
        totals = [np.add.reduceat(column[facets], start) for column in rows.T]
        return np.stack(totals, axis=1) / self.length.rows[:, None]

    def reserve(self, count: int) -> Array:
        """Add `count` faces without facets; return their indices."""
        none = np.full(count, -1)
        self.other_half.extend(none)
        self.zero.extend(none)
        return np.arange(self.size - count, self.size)

    def assign_facets(
        self, faces: Array, owner: Array, facet: Array, below: FacesOfDimension
    ) -> bool:
        """Set `facet` as the facets of ``faces[owner]``; new faces come last, in order.

        Returns whether each face has a facet.
        """
        order = np.argsort(owner, kind="stable")
        facet, length = facet[order], np.bincount(owner, minlength=len(faces))
        if not length.all():
            return False
        first = np.cumsum(length) - length
        values = (
            (self.length, length),
            (self.start, first + self.facets.size),
            (self.positive, _any(below.positive.rows[facet], first)),
            (self.negative, _any(below.negative.rows[facet], first)),
        )
        for store, value in values:
            old = faces < store.size
            store.rows[faces[old]] = value[old]
            store.extend(value[~old])
        self.facets.extend(facet)
        return True
