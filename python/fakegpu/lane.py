"""Lanes: operations that run one after the other, in the order of their submission.

A lane has a thread of its own, so a submission never blocks. But handing over to another thread costs more than a
small operation does, so a caller that would wait anyway runs its operation itself, if it is next.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import Callable

from torch.distributed import DistBackendError

from fakegpu import helpers, nccl
from fakegpu.helpers import Helper
from fakegpu.nccl import Communicator
from fakegpu.work import Work

# How often running operations are looked at.
_LOOK_SECONDS = 0.2

# How long past its time-out an operation is left to the coordinator, whose words are better.
_GRACE_SECONDS = 2.0

# How long a group that is destroyed waits for what is under way.
DRAIN_SECONDS = 10.0


_DESTROYED = "the process group is destroyed"


class Task:
    """One operation: its work, what to call, and when it must have ended."""

    def __init__(self, work: Work, run: Callable[[], None], timeout: float) -> None:
        self.work = work
        self.run = run
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout

    def perform(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to whoever waits
            self.work.finish(DistBackendError(f"{error}\n(in {self.work.title})"))
        else:
            self.work.finish()


class Lane:
    """Tasks of one order. `comm` is what they run on, once it is there."""

    def __init__(self, name: str, peer: str = "the group") -> None:
        self.name = name
        self._peer = peer
        self.comm: Communicator | None = None
        self._health: Callable[[], str | None] | None = None
        self._queue: deque[Task] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._current: Task | None = None
        self._helper: Helper | None = None
        self._is_closed = False
        self._failure = _DESTROYED
        _watch(self)

    def watch_with(self, health: Callable[[], str | None]) -> None:
        """While a task runs, `health` is asked now and then why it cannot end any more."""
        self._health = health

    def adopt(self, comm: Communicator) -> Communicator:
        """From now on tasks run on `comm`."""
        with self._wake:
            if self._failure is _DESTROYED:
                self.comm = comm
                return comm
        comm.abort()
        raise RuntimeError(self._failure)

    def submit(self, task: Task) -> None:
        """Queues a task; the lane's thread runs it, or a thread that waits for it."""
        with self._wake:
            if self._is_closed:
                task.work.finish(DistBackendError(f"{self._failure}\n(in {task.work.title})"))
                return
            self._queue.append(task)
            self._call_thread()
        task.work.helped_by(lambda: self._help(task))

    def run(self, task: Task) -> None:
        """Runs a task in this thread if it is next, else queues it. For callers that wait for it at once."""
        with self._wake:
            is_next = self._current is None and not self._queue and not self._is_closed
            if is_next:
                self._current = task
        if is_next:
            self._perform(task)
        else:
            self.submit(task)

    def _help(self, task: Task) -> None:
        # Until there is a communicator, nobody could call the thread back from its wait for the others.
        with self._wake:
            is_next = self._current is None and bool(self._queue) and self._queue[0] is task
            if not is_next or self.comm is None:
                return
            self._queue.popleft()
            self._current = task
        self._perform(task)

    def _perform(self, task: Task) -> None:
        try:
            task.perform()
        finally:
            with self._wake:
                self._current = None
                if self._queue or self._is_closed:
                    self._wake.notify_all()

    def _call_thread(self) -> None:
        if self._helper is None:
            self._helper = Helper(self.name, self._loop, self._rouse, nccl.is_inside)
        else:
            self._wake.notify_all()

    def _rouse(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _loop(self) -> None:
        while (task := self._next()) is not None:
            self._perform(task)

    def _next(self) -> Task | None:
        with self._wake:
            while self._current is not None or not self._queue:
                if (self._is_closed or helpers.is_leaving()) and not self._queue:
                    return None
                self._wake.wait()
            self._current = self._queue.popleft()
            return self._current

    def look(self, now: float) -> None:
        """Gives up what is past its time, or cannot end any more."""
        task = self._current
        if task is None or self._failure is not _DESTROYED:
            return
        reason = self._health() if self._health is not None else None
        if reason is None and now > task.deadline + _GRACE_SECONDS:
            what = "it has not ended" if self.comm is not None else f"{self._peer} has not come to meet this rank"
            reason = f"timeout: {what} within the group's {task.timeout:g} s"
        if reason is not None:
            self.give_up(f"{reason}\n(in {task.work.title})")

    def give_up(self, reason: str) -> None:
        """Fails everything that runs or waits here; the call that runs comes back."""
        with self._wake:
            self._is_closed = True
            self._failure = reason
            tasks = ([self._current] if self._current else []) + list(self._queue)
            self._queue.clear()
            self._wake.notify_all()
        for task in tasks:
            task.work.finish(DistBackendError(reason))
        if self.comm is not None:
            self.comm.abort()

    def close(self, deadline: float) -> None:
        """Waits for what is under way, up to `deadline` (of `time.monotonic`), and leaves the communicator."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
            while (self._current or self._queue) and (left := deadline - time.monotonic()) > 0:
                self._wake.wait(left)
            is_idle = self._current is None and not self._queue
        if not is_idle:
            self.give_up("the process group was destroyed while this ran")
        elif self.comm is not None:
            self.comm.destroy()
        if self._helper is not None:
            self._helper.end()


_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()
_lanes_lock = threading.Lock()
_watcher: Helper | None = None


def _watch(lane: Lane) -> None:
    global _watcher
    with _lanes_lock:
        _lanes.add(lane)
        if _watcher is None:
            _watcher = Helper("fakegpu-watch", _look_at_all)


def _look_at_all() -> None:
    while not helpers.pause(_LOOK_SECONDS):
        with _lanes_lock:
            lanes = list(_lanes)
        now = time.monotonic()
        for lane in lanes:
            lane.look(now)
