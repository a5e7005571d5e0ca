"""A Dask cluster: one started on this machine, or one whose scheduler is named.

Dask distributes the tasks, and gives those of a worker that dies to others. Anyone who can connect to a scheduler can run
code on its workers, and in this process. So the cluster that is started here listens on this machine only (127.0.0.1) and
accepts only who has its certificate, which is made at the start and kept in the memory of its processes.
"""

import contextlib
import logging
import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft import __version__
from weft.errors import WeftError, WeftWarning, missing_extra

# seconds to wait for the answer of a scheduler, and for its first worker
CONNECT_SECONDS = 10.0
FIRST_WORKER_SECONDS = 30.0
# a task fails after its worker has died more often than this
LOSSES = 3
# a worker that is killed while it starts is no reason to give up; one that fails twice will fail again
STARTS = 2
HERE = "127.0.0.1"
# without pages of HTTP, which ask nobody for a certificate
CONFIG = {
    "distributed.scheduler.allowed-failures": LOSSES,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
# the settings of Dask without which tls:// cannot be used
TLS_SETTINGS = ("ca-file", "client.cert", "client.key")


class FarmError(WeftError):
    """The scheduler or its workers cannot be used, or were lost."""


class Farm:
    """A connection to workers, which run functions."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    @property
    def workers(self) -> dict[str, Any]:
        """The scheduler's information about each worker, by address."""
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])

    def map_unordered(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        needs: Callable[[Any], dict[str, float]] | None = None,
        ahead: int | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with every item on the workers; yields (number of the item, result) as results arrive.

        The result of a call that failed is a `WeftError`. `needs` returns the resources of an item. `ahead` limits how
        many items are submitted at a time, where results are too large to wait in memory.
        """
        from distributed import as_completed

        todo = iter(enumerate(items))
        numbers: dict[Any, int] = {}
        waiting = as_completed(loop=self._client.loop)

        def give(count: int | None) -> None:
            for _, (number, item) in zip(range(len(items) if count is None else count), todo, strict=False):
                resources = needs(item) if needs is not None else {}
                future = self._client.submit(_call, function, item, pure=False, resources=resources or None)
                numbers[future] = number
                waiting.add(future)

        try:
            give(ahead)
            while numbers:
                future = next(waiting)
                number = numbers.pop(future)
                result = self._result(future)
                give(1)
                yield number, result
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(list(numbers))

    def _result(self, future: Any) -> Any:
        from distributed import CancelledError, KilledWorker

        try:
            return future.result()
        except KilledWorker:
            why = f"its process was killed {LOSSES + 1} times, perhaps for want of memory"
            return FarmError(f"{why}; fewer workers at a time may help")
        except CancelledError:
            raise FarmError(f"the scheduler {self.name} is gone") from None
        except Exception as error:
            return FarmError(" ".join(f"{type(error).__name__}: {error}".split()))

    def check_versions(self) -> None:
        """Refuse workers with another version of weft: their results could differ."""
        try:
            found = self._client.run(_version)
        except Exception as error:
            raise FarmError(f"a worker of {self.name} cannot run weft: {' '.join(str(error).split())}") from None
        others = {address: version for address, version in found.items() if version != __version__}
        if others:
            address, version = next(iter(others.items()))
            raise FarmError(f"worker {address} has weft {version}, this is weft {__version__}: install the same")

    def check_gpus(self) -> None:
        """Refuse tasks for GPUs if no worker declares one."""
        if not any(worker.get("resources", {}).get("GPU") for worker in self.workers.values()):
            raise FarmError(
                f"no worker of {self.name} declares a GPU, and there are runs on cuda: start workers with  "
                "dask worker ADDRESS --resources GPU=1"
            )


@contextlib.contextmanager
def connect(scheduler: str = "local", *, workers: int | None = None, gpus: bool = False) -> Iterator[Farm]:
    """A connection to workers for the time of a `with` block.

    scheduler: "local" starts workers on this machine, one a core unless `workers` says how many ("local:4" is the
    same in one word); "tcp://host:port" is the address of a scheduler. gpus: one local worker a CUDA device.
    """
    leave_children()
    try:
        import distributed
    except ImportError as error:
        raise missing_extra("farm", "distributed") from error
    local = re.fullmatch(r"local(?::(\d{1,4}))?", scheduler)
    if local is None:
        if not re.fullmatch(r"\w+://\S+", scheduler):
            raise FarmError(f"--scheduler {scheduler}: write local, local:4 or an address such as tcp://127.0.0.1:8786")
        if workers is not None:
            raise FarmError(f"--workers is for workers on this machine; those of {scheduler} are already there")
        if scheduler.startswith("tls://"):
            _check_tls(distributed, scheduler)
        else:
            warnings.warn(
                f"--scheduler {scheduler}: whoever reaches this address can run code on its workers and in this process; "
                "tls:// lets in only who has the certificate",
                WeftWarning,
                stacklevel=3,
            )
        with _quiet(), _client(distributed, scheduler, scheduler) as client:
            yield _ready(client, scheduler)
        return
    count = workers if workers is not None else int(local[1]) if local[1] else None
    if count is not None and count < 1:
        raise FarmError(f"there must be at least 1 worker, not {count}")
    with (
        _quiet(),
        _start_local(distributed, count, gpus=gpus) as cluster,
        _client(distributed, cluster, "local") as client,
    ):
        yield _ready(client, "this machine")


def leave_children() -> None:
    """End a worker process that, importing its parent's script, is about to start workers; the parent reports why."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)


@contextlib.contextmanager
def _start_local(distributed: Any, count: int | None, *, gpus: bool) -> Iterator[Any]:
    """A scheduler in this process and workers in processes of their own, which end when this one does."""
    import dask

    try:
        security = distributed.Security.temporary()
    except ImportError as error:
        raise missing_extra("farm", "cryptography") from error
    secure = {"host": HERE, "protocol": "tls://", "security": security, "dashboard": False}
    devices = _cuda_devices() if gpus else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = count or devices or cores
    threads = str(max(1, cores // count))
    common = {
        **secure,
        "nthreads": 1,
        "memory_limit": 0,
        "silence_logs": logging.ERROR,
        # Ctrl-C is handled by this process, which ends the workers
        "preload": ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
    }
    specs = {}
    for number in range(count):
        environment = {"WEFT_THREADS": threads}
        options: dict[str, Any] = {**common, "env": environment}
        if devices:
            environment["CUDA_VISIBLE_DEVICES"] = str(number % devices)
            options["resources"] = {"GPU": 1}
        specs[number] = {"cls": distributed.Nanny, "options": options}
    head = {**secure, "port": 0, "dashboard_address": f"{HERE}:0"}
    options = {"workers": specs, "scheduler": {"cls": distributed.Scheduler, "options": head}, "security": security}
    _start_tracker()
    with dask.config.set(CONFIG):
        cluster = _start_cluster(distributed, options)
        with cluster:
            yield cluster


def _start_cluster(distributed: Any, options: dict[str, Any]) -> Any:
    """The cluster of these workers; where a worker is killed while it starts, all are started a second time."""
    error: RuntimeError | None = None
    for _ in range(STARTS):
        try:
            return distributed.SpecCluster(**options, silence_logs=logging.ERROR)
        except RuntimeError as failure:
            error = failure
    raise FarmError(
        f"the worker processes did not start in {STARTS} attempts ({error}): they were killed, perhaps for want of memory, or "
        "a script starts them as it is imported. In a script, call this below  if __name__ == '__main__':  since workers "
        "import the script"
    )


def _start_tracker() -> None:
    """Start Python's process that removes the semaphores of workers that were killed, without its warning about that."""
    if os.name != "posix":
        return
    from multiprocessing import resource_tracker

    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


def _check_tls(distributed: Any, scheduler: str) -> None:
    """Refuse an encrypted connection for which Dask has no certificate."""
    names = [f"distributed.comm.tls.{name}" for name in TLS_SETTINGS]
    try:
        if distributed.Security().get_connection_args("client")["ssl_context"] is not None:
            return
        why = "Dask has no certificate for it"
    except (OSError, ValueError) as error:
        why = f"Dask's certificate for it cannot be read ({error})"
    variables = ", ".join("DASK_" + n.upper().replace(".", "__").replace("-", "_") for n in names)
    raise FarmError(
        f"--scheduler {scheduler}: {why}: set {', '.join(names)} in ~/.config/dask/distributed.yaml, or the variables "
        f"{variables}, to the files of the scheduler's administrator"
    )


@contextlib.contextmanager
def _client(distributed: Any, address: Any, name: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise FarmError(
            f"no scheduler answers at {name} ({' '.join(str(error).split())[:120]}): start one with  dask scheduler"
        ) from None
    try:
        yield client
    finally:
        # closing fails if the scheduler is gone
        with contextlib.suppress(Exception):
            client.close(timeout=2)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's logs: errors are reported here."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado.application")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _ready(client: Any, name: str) -> Farm:
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
    except TimeoutError:
        raise FarmError(f"{name} has no worker: start one with  dask worker {name}") from None
    farm = Farm(client, name)
    farm.check_versions()
    return farm


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    """Runs on a worker. It never raises, because an exception that cannot be pickled would be lost."""
    try:
        return function(item)
    except WeftError as error:
        return error if type(error).__module__.startswith("weft.") else WeftError(str(error))
    except Exception as error:
        return FarmError(" ".join(f"{type(error).__name__}: {error}".split())[:1000])


def _version() -> str:
    return __version__


def _cuda_devices() -> int:
    import warp

    # starts Warp without its greeting
    import weft.runtime  # noqa: F401

    return len(warp.get_cuda_devices())
