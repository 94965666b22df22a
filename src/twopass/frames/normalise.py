"""Whatever ``render()`` returns into one ``(H, W, 3) uint8`` picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from twopass.errors import EncoderError

__all__ = ["FrameNormaliser"]

# A renderer's rounding may leave white at 1.0000001, which must not read as 1 of 255.
_ONE = 1.001
_PIL_NUMERIC = {"1", "F", "I", "I;16", "I;16B", "I;16L", "L"}


class FrameNormaliser:
    """Turns the frames of one film into ``(H, W, 3) uint8`` arrays.

    Takes arrays ``(H, W, 3)``, ``(H, W, 4)`` (alpha is dropped), ``(H, W)`` and
    ``(H, W, 1)`` of bool, integers 0 to 255, uint16 0 to 65535 and floats; torch
    tensors; Pillow images; and lists of them, of which the last is taken.

    Floats are read as 0 to 1, or as 0 to 255 from the first value above 1 on: the
    reading is kept for the rest of the film, so that a dark frame stays dark.

    Example:
        >>> import numpy as np
        >>> FrameNormaliser()(np.full((1, 2), 0.2), step=0).tolist()
        [[[51, 51, 51], [51, 51, 51]]]
    """

    def __init__(self) -> None:
        self._float_is_bytes = False

    def __call__(self, frame: Any, step: int) -> npt.NDArray[np.uint8]:
        """Return a picture of its own, never a view of ``frame``.

        Args:
            frame: What ``render()`` returned.
            step: The step of the episode, for the error.

        Returns:
            ``(H, W, 3) uint8``, C-contiguous.

        Raises:
            EncoderError: If ``frame`` is not a picture. Names the step.
        """
        array = _as_array(_last(frame, step), step)
        _check_shape(array, step)
        return _three_channels(self._as_uint8(array, step))

    def _as_uint8(self, array: npt.NDArray[Any], step: int) -> npt.NDArray[np.uint8]:
        if array.dtype == np.uint8:
            return array
        if array.dtype == np.bool_:
            return np.where(array, np.uint8(255), np.uint8(0))
        if array.dtype == np.uint16:
            return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
        if np.issubdtype(array.dtype, np.integer):
            return _checked_range(array, step).astype(np.uint8)
        if np.issubdtype(array.dtype, np.floating):
            return self._float_as_uint8(array, step)
        raise _refused(step, f"an array of dtype {array.dtype}", "render numbers")

    def _float_as_uint8(self, array: npt.NDArray[Any], step: int) -> npt.NDArray[Any]:
        if not np.isfinite(array).all():
            raise _refused(step, "NaN or inf in a picture", "find where it comes from")
        array = _checked_range(array, step)
        self._float_is_bytes |= bool(array.max() > _ONE)
        if not self._float_is_bytes:
            array = np.minimum(array, 1).astype(np.float32) * 255
        rounded: npt.NDArray[Any] = np.rint(array)
        return rounded.astype(np.uint8)


def _last(frame: Any, step: int) -> Any:
    if not isinstance(frame, list | tuple):
        return frame
    if not frame:
        raise _refused(
            step,
            "an empty list of frames",
            "call render() once a step, and let nobody else take its frames",
        )
    return frame[-1]


def _as_array(frame: Any, step: int) -> npt.NDArray[Any]:
    if isinstance(frame, Image.Image):
        return np.asarray(frame if frame.mode in _PIL_NUMERIC else frame.convert("RGB"))
    if all(hasattr(frame, name) for name in ("detach", "cpu", "numpy")):
        return _from_tensor(frame, step)
    if isinstance(frame, np.ndarray) or hasattr(frame, "__array__"):
        return np.asarray(frame)
    got = "None" if frame is None else f"a {type(frame).__name__}"
    raise _refused(
        step, got, 'make the environment with render_mode="rgb_array" or a like mode'
    )


def _from_tensor(frame: Any, step: int) -> npt.NDArray[Any]:
    try:
        return np.asarray(frame.detach().cpu().numpy())
    except TypeError as error:
        got = f"a tensor of dtype {getattr(frame, 'dtype', '?')}"
        raise _refused(step, got, "convert it to uint8 or float32") from error


def _check_shape(array: npt.NDArray[Any], step: int) -> None:
    flat = array.ndim == 2
    deep = array.ndim == 3 and array.shape[-1] in (1, 3, 4)
    if not (flat or deep) or array.size == 0:
        raise _refused(
            step,
            f"an array of shape {array.shape}",
            "give (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), one camera, channels last",
        )


def _checked_range(array: npt.NDArray[Any], step: int) -> npt.NDArray[Any]:
    low, high = array.min(), array.max()
    if low < 0 or high > 255:
        raise _refused(
            step,
            f"{array.dtype} values from {low} to {high}",
            "scale them to 0..1 (float) or 0..255",
        )
    return array


def _three_channels(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.ndim == 2:
        array = array[..., np.newaxis]
    if array.shape[-1] == 1:
        array = np.broadcast_to(array, (*array.shape[:2], 3))
    return np.array(array[..., :3], dtype=np.uint8, order="C", subok=False)


def _refused(step: int, got: str, remedy: str) -> EncoderError:
    return EncoderError(
        f"step {step}: render() gave {got}, which is no picture; {remedy}"
    )
