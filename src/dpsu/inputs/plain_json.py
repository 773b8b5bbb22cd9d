"""Lines of JSON that are plain, which most are, without a whole parser.

What is read here is what Arrow reads; what is not plain, Arrow or Python reads as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def plain_table(block: bytes, names: Sequence[str]) -> pa.Table | None:
    """The columns of whole lines, text or int64 each; None if any line is not plain."""
    from dpsu.kernels import json_rows

    rows = block.count(b"\n") + (not block.endswith(b"\n"))
    encoded = [name.encode() for name in names]
    kinds = np.full(len(names), json_rows.UNKNOWN, np.int64)
    texts = np.empty((len(names), len(block)), np.uint8)
    text_ends = np.zeros((len(names), rows + 1), np.int32)
    integers = np.empty((len(names), rows), np.int64)
    found = json_rows.read_objects(
        np.frombuffer(block, np.uint8), np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([len(name) for name in encoded]), kinds, texts, text_ends, integers,
    )  # fmt: skip
    if found != rows:
        return None
    arrays = []
    for column, kind in enumerate(kinds.tolist()):
        if kind == json_rows.INTEGER:
            arrays.append(pa.array(integers[column]))
            continue
        # Copied, so that what is kept of a block is no larger than its texts.
        used = texts[column, : text_ends[column, -1]].copy()
        buffers = [None, pa.py_buffer(text_ends[column].copy()), pa.py_buffer(used)]
        array = pa.Array.from_buffers(pa.string(), rows, buffers)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            # Not UTF-8; its message would quote bytes.
            return None
        arrays.append(array)
    return pa.table(arrays, names=list(names))
