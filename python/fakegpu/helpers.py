"""Threads that help, and how they end before Python does.

At the end of a program Python stops threads at the moment they ask for its lock. One that asks from within torch's C++
code takes the whole process down with it, so helpers end first. Threads that stand in libnccl may stay: no C++ there.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import Callable

# How long the end of a program waits for a helper; each is between two short calls.
_JOIN_SECONDS = 2.0
_SLICE_SECONDS = 0.02

# How long a thread that comes too late is held up; Python has ended by then.
_PARK_SECONDS = 10.0

_process = os.getpid()
_leaving = threading.Event()
_helpers: set[Helper] = set()
_farewells: list[Callable[[], None]] = []


class Helper:
    """A thread that runs `loop`, which looks at `is_leaving` between its steps; `wake` calls it out of its sleep.

    A thread that `is_busy` stands in libnccl and is not waited for."""

    def __init__(
        self,
        name: str,
        loop: Callable[[], None],
        wake: Callable[[], None] = lambda: None,
        is_busy: Callable[[int], bool] = lambda thread: False,
    ) -> None:
        self._loop = loop
        self._wake = wake
        self._is_busy = is_busy
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _helpers.difference_update([helper for helper in _helpers if not helper._thread.is_alive()])
        self._thread.start()
        _helpers.add(self)

    def _run(self) -> None:
        try:
            self._loop()
        finally:
            # What the loop holds is freed by this thread, while it is still waited for.
            del self._loop

    def end(self) -> None:
        """Waits for its end, which has been asked for."""
        deadline = time.monotonic() + _JOIN_SECONDS
        self._wake()
        while self._thread.is_alive() and not self._is_busy(self._thread.ident) and time.monotonic() < deadline:
            self._thread.join(_SLICE_SECONDS)
        if not self._thread.is_alive():
            _helpers.discard(self)


def is_leaving() -> bool:
    """Whether the program is ending."""
    return _leaving.is_set()


def pause(seconds: float) -> bool:
    """Sleeps, unless the program ends; whether it does."""
    return _leaving.wait(seconds)


def park_at_the_end() -> None:
    """Holds up a helper that comes out of libnccl while Python ends: it would run into the end."""
    if _leaving.is_set() and threading.current_thread() is not threading.main_thread():
        threading.Event().wait(_PARK_SECONDS)


def at_farewell(call: Callable[[], None]) -> None:
    """Calls back when the program ends, while everything still works."""
    _farewells.append(call)


@atexit.register
def _leave() -> None:
    # A forked child that ends is not the program.
    if os.getpid() != _process:
        return
    for call in _farewells:
        call()
    _leaving.set()
    for helper in list(_helpers):
        helper.end()
