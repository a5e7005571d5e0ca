"""What weft raises when the user can do something about it: one clear message, no traceback in the command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WeftError(Exception):
    """A mistake in what weft was given, or a limit of the machine; the message says what to do."""


class MeshError(WeftError):
    """A mesh that cannot be used as it is."""


class SceneError(WeftError):
    """A scene file or scene object that does not say what weft needs."""


class WeftWarning(UserWarning):
    """Something that can be simulated and that is probably not what was meant, such as a slip of units."""


class CacheError(WeftError):
    """A cache that cannot be read, written or continued."""


class MissingExtraError(WeftError):
    """An optional dependency that is not installed."""


def missing_extra(extra: str, package: str) -> MissingExtraError:
    """The one-line answer to a missing optional package."""
    return MissingExtraError(f"this needs the package {package}: install it with  pip install 'weft[{extra}]'")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make one sentence of a file or folder that cannot be written."""
    try:
        yield
    except OSError as error:
        raise WeftError(f"cannot write {path}: {error.strerror or error}") from error
