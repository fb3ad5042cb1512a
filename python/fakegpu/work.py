"""Work: what a program holds of an operation that may still run."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Callable

from torch import Tensor
from torch._C._distributed_c10d import Work as C10dWork
from torch.distributed import DistBackendError
from torch.futures import Future

_NO_TIMEOUT = timedelta(0)


class Work(C10dWork):
    """One operation, from its submission to its end.

    `finish` is called once by whoever ran the operation, or earlier by whoever gave it up; the first word counts.
    """

    def __init__(self, title: str, tensors: list[Tensor]) -> None:
        super().__init__()
        self.title = title
        self._tensors = tensors
        self._error: BaseException | None = None
        self._is_done = False
        self._source = -1
        self._future: Future | None = None
        self._after: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        # Held until the end; a waiter that gets it passes it on.
        self._gate = threading.Lock()
        self._gate.acquire()
        self._help: Callable[[], None] | None = None

    def helped_by(self, helper: Callable[[], None]) -> None:
        """A thread that waits without a bound calls `helper` first: it may run the operation itself."""
        self._help = helper

    def finish(self, error: BaseException | None = None, source: int = -1) -> None:
        """The operation ended, with `error` if it failed. `source` is who sent, for a receive."""
        with self._lock:
            if self._is_done:
                return
            self._error, self._source, self._is_done = error, source, True
            self._help = None
            after, self._after = self._after, []
        self._gate.release()
        for callback in after:
            callback()

    def then(self, callback: Callable[[], None]) -> None:
        """Calls back at the end, or now if that is past."""
        with self._lock:
            if not self._is_done:
                self._after.append(callback)
                return
        callback()

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Blocks until the end; raises what went wrong. A zero or negative time-out is none."""
        if not self._is_done:
            self._block(timeout.total_seconds() if timeout else 0.0)
        if self._error is not None:
            # A fresh one each time: an exception collects the tracebacks of all who raise it.
            raise type(self._error)(*self._error.args)
        return True

    def _block(self, seconds: float) -> None:
        if seconds <= 0:
            helper = self._help
            if helper is not None:
                helper()
            self._gate.acquire()
        elif not self._gate.acquire(timeout=seconds):
            raise DistBackendError(f"{self.title} has not ended within the {seconds:g} s that wait() was given; it goes on")
        self._gate.release()

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._is_done

    def is_success(self) -> bool:
        return self._is_done and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[Tensor]:
        return self._tensors

    def source_rank(self) -> int:
        """Who sent, as a rank of the group; for receives."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Future:
        """A future of the tensors, which fails as the operation does."""
        with self._lock:
            fresh = self._future is None
            if fresh:
                begun: Future = Future()
                # Through `then`, since an exception that is set directly is a value to C++ waiters.
                self._future = begun.then(self._outcome)
            future = self._future
        if fresh:
            self.then(lambda: begun.set_result(None))
        return future

    def _outcome(self, _: Future) -> list[Tensor]:
        if self._error is not None:
            raise type(self._error)(*self._error.args)
        return self._tensors


def joined(title: str, works: list[Work]) -> Work:
    """The work that ends with the last of several; the first failure is its own."""
    whole = Work(title, [tensor for work in works for tensor in work.result()])
    left = len(works)
    lock = threading.Lock()

    def one_ended() -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            whole.finish(next((work.exception() for work in works if work.exception()), None))

    def help_all() -> None:
        for work in works:
            helper = work._help
            if helper is not None:
                helper()

    for work in works:
        work.then(one_ended)
    if works:
        whole.helped_by(help_all)
    else:
        whole.finish()
    return whole
