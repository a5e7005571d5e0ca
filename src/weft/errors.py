"""Errors that a user can correct: one clear message, which commands print without a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def printable(text: str) -> str:
    """Text without line breaks and terminal commands: characters that do not print are shown as escapes such as \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class WeftError(Exception):
    """A mistake in what weft was given, or a limit of the machine; the message says what to do."""


class Unstable(WeftError):
    """Positions or velocities that no cloth can have."""

    ADVICE = "Smaller steps, less stiffness or more damping help"

    def __str__(self) -> str:
        return f"{self.args[0]}. {self.ADVICE}"


class MeshError(WeftError):
    """A mesh that cannot be used as it is."""


class SceneError(WeftError):
    """A scene file or scene object that does not say what weft needs."""


class WeftWarning(UserWarning):
    """Something that can be simulated but is probably not intended, such as a value in the wrong unit."""


class CacheError(WeftError):
    """A cache that cannot be read, written or continued."""


class MissingExtraError(WeftError):
    """An optional dependency that is not installed."""


def missing_extra(extra: str, package: str) -> MissingExtraError:
    """The error for a missing optional package."""
    return MissingExtraError(f"this needs the package {package}: install it with  pip install 'weft-cloth[{extra}]'")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write a file or folder into a one-line error."""
    try:
        yield
    except OSError as error:
        # NumPy says of a full disk only how much it could write
        reason = "No space left on device" if str(error).endswith(" written") else error.strerror or error
        raise WeftError(f"cannot write {path}: {reason}") from error
