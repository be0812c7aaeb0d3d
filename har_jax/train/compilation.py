"""The persistent compilation cache: a step that was compiled once is not compiled again."""

import os
import pathlib

import jax


def use_compilation_cache() -> None:
    """Turns JAX's compilation cache on, in the user's cache folder.

    Has no effect where ``JAX_COMPILATION_CACHE_DIR`` or JAX's own configuration names another
    folder; ``JAX_ENABLE_COMPILATION_CACHE=false`` turns it off. Opens no device.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        try:
            caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        except RuntimeError:  # a user without a home, as in some containers
            return
        jax.config.update("jax_compilation_cache_dir", str(caches / "har_jax" / "xla"))
