"""Which files are images: those that the installed Pillow opens, by their names."""

import functools

from PIL import EpsImagePlugin, Image, ImageFile

_IDENTIFIED_ONLY = frozenset(("MPEG",))  # which Pillow can tell the size of, and nothing more


@functools.cache
def image_suffixes() -> frozenset[str]:
    """Of file names, in lower case, with the dot."""
    Image.init()
    return frozenset(
        suffix for suffix, kind in Image.registered_extensions().items() if _is_decoded(kind)
    )


def _is_decoded(kind: str) -> bool:
    if kind not in Image.OPEN or kind in _IDENTIFIED_ONLY:
        return False
    if kind == "EPS":  # which another program draws
        return bool(EpsImagePlugin.has_ghostscript())
    opener = Image.OPEN[kind][0]  # of a stub another program would have to be registered
    return not (isinstance(opener, type) and issubclass(opener, ImageFile.StubImageFile))
