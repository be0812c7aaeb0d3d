"""Classification sets of TensorFlow Datasets, found without TensorFlow.

What is prepared on this machine is read without touching the network. What is not is
downloaded and prepared, for which TensorFlow is needed (the extra ``prepare``).
"""

import importlib.util
import os
import pathlib
import re
import threading
import urllib.error
import urllib.request

from har_jax.data.examples import DataError
from har_jax.data.sources.records import PreparedData

_PROBE_SECONDS = 4


def find_or_prepare(name: str, data_dir: pathlib.Path | None = None) -> PreparedData:
    """Finds a prepared set, or prepares it.

    Args:
      name: ``NAME[/CONFIG][:VERSION]`` as TFDS writes it; the newest version there is if none
        is given.
      data_dir: Holds one folder for every set; by default ``$TFDS_DATA_DIR``, or else
        ``~/tensorflow_datasets``, as TFDS has it.

    Raises:
      DataError: if the set is not there and cannot be prepared, or has no class labels.
    """
    match = re.fullmatch(r"(\w+)(?:/([\w.-]+))?(?::(\d+\.\d+\.\d+))?", name)
    if match is None:
        raise DataError(f"tfds:{name} is not a name of TFDS: write tfds:NAME[/CONFIG][:VERSION]")
    if data_dir is None:
        data_dir = pathlib.Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")
    data_dir = pathlib.Path(os.path.expanduser(data_dir)).resolve()
    folder = _find(data_dir, *match.groups())
    if folder is None:
        _prepare(name, data_dir)
        folder = _find(data_dir, *match.groups())
        if folder is None:
            raise DataError(f"tfds:{name} was prepared, but is not in {data_dir}")
    return _open(name, folder)


def _find(
    data_dir: pathlib.Path, name: str, config: str | None, version: str | None
) -> pathlib.Path | None:
    """The folder of the newest version that is complete: NAME/[CONFIG/]VERSION."""
    root = data_dir / name
    if config is not None:
        roots = [root / config]
    else:  # a set either has configs or has none
        roots = [root, *(path for path in sorted(root.glob("*")) if not _version(path))]
    found = [
        [path for path in base.glob(version or "*") if _version(path) and _is_complete(path)]
        for base in roots
    ]
    found = [versions for versions in found if versions]
    if len(found) > 1:
        names = ", ".join(f"tfds:{name}/{versions[0].parent.name}" for versions in found)
        raise DataError(f"{root} holds several configs: write one of {names}")
    return max(found[0], key=_version) if found else None


def _version(path: pathlib.Path) -> tuple[int, ...]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", path.name)
    return tuple(map(int, match.groups())) if match else ()


def _is_complete(path: pathlib.Path) -> bool:
    # TFDS prepares in a folder of another name, and renames it in the end.
    return (path / "dataset_info.json").exists() and (path / "features.json").exists()


def _open(name: str, folder: pathlib.Path) -> PreparedData:
    try:
        import tensorflow_datasets as tfds
        import tensorflow_datasets.public_api  # the above logs what it lacks, and goes on without
    except ImportError as error:
        raise DataError(
            f"tfds:{name}: tensorflow_datasets cannot be imported ({error}): install what it lacks"
        ) from error

    try:
        builder = tfds.builder_from_directory(folder)
        data = PreparedData(name, builder)
        _ = data.class_names
        file_format = builder.info.file_format
    except DataError:
        raise
    except Exception as error:  # of whatever type a damaged file leads to
        raise DataError(
            f"tfds:{name}: {folder} cannot be read ({type(error).__name__}: {error}): delete it "
            "and prepare it again"
        ) from error
    if file_format is not tfds.core.FileFormat.ARRAY_RECORD:
        raise DataError(
            f"tfds:{name} is prepared as {file_format.value} in {folder}, which cannot be read "
            "without TensorFlow: prepare it as array_record in another config.data.data_dir"
        )
    return data


def _prepare(name: str, data_dir: pathlib.Path) -> None:
    missing = f"tfds:{name} is not prepared in {data_dir}"
    elsewhere = "or point TFDS_DATA_DIR (or config.data.data_dir) to a folder that has it"
    if importlib.util.find_spec("tensorflow") is None:
        raise DataError(
            f"{missing}, and TensorFlow, which prepares it, is not installed: "
            f"install the extra 'prepare' (pip install -e '.[prepare]') and run this again to "
            f"download it, {elsewhere}"
        )
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.config.set_visible_devices([], "GPU")  # which TensorFlow would fill up, and JAX needs
    try:
        builder = tfds.builder(name, data_dir=data_dir, file_format="array_record")
    except Exception as error:  # tfds.core.DatasetNotFoundError and others
        first = (str(error).splitlines() or [""])[0]
        raise DataError(f"{missing}, and TFDS cannot prepare it: {first}") from error
    hosts = [
        address for address in (builder.info.homepage, "https://www.tensorflow.org") if address
    ]
    if not _any_answers(hosts):
        raise DataError(
            f"{missing}, and there is no network to download it from ({' and '.join(hosts)} do not "
            f"answer): run this where there is one and copy the folder here, {elsewhere}"
        )
    print(f"tfds:{name}: downloading and preparing in {data_dir}", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise DataError(
            f"{missing}: preparing it failed ({type(error).__name__}: {error})"
        ) from error


def _any_answers(addresses: list[str]) -> bool:
    """Whether there is a network: asked first, since TFDS goes on trying for minutes."""
    answered = threading.Event()
    for address in addresses:  # in threads, since looking a name up can take longer than that
        ask = lambda address=address: answered.set() if _answers(address) else None
        threading.Thread(target=ask, daemon=True).start()
    return answered.wait(_PROBE_SECONDS)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=_PROBE_SECONDS):
            return True
    except urllib.error.HTTPError:  # an answer
        return True
    except (OSError, ValueError):
        return False
