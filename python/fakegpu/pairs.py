"""Point to point: sends and receives by tag, and receives from any source.

NCCL pairs a send with a receive by their order alone, and a send lasts until its receive has come. So every direction
between two ranks has a communicator and a lane of its own, made when it is first used: nobody holds up anybody else,
whatever a program leaves open.

- Tag 0 is plain NCCL: one ncclSend and one ncclRecv a message, in order.
- Other tags have a second communicator a direction, on which a header (tag, bytes) goes before each message. The
  receiver takes messages as they come and keeps those that nobody has asked for yet.
- A receive from any source looks at counters in the c10d store, which senders raise beside their sends, and receives
  from a rank whose message is on its way. That costs a round trip to the store for each look; sends do not wait.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor
from torch.distributed import DistBackendError

from fakegpu import dtypes, helpers, nccl
from fakegpu.helpers import Helper
from fakegpu.lane import DRAIN_SECONDS, Lane, Task
from fakegpu.nccl import Communicator, NcclError
from fakegpu.work import Work

# The two ranks of a direction's communicator.
_SENDER, _RECEIVER = 0, 1

# How long the search for a sender pauses between looks, at first and at most.
_LOOK_SECONDS, _LOOK_SECONDS_MAX = 0.0005, 0.01

# How long a sender gathers messages before it tells of them again.
_KNOCK_SECONDS = 0.002


@dataclass(frozen=True)
class Place:
    """Where a process stands in a group, and what it needs to meet the others."""

    rank: int
    size: int
    timeout: float
    store: object
    """A store of this group's own connection, so that nobody else's waiting blocks it."""
    describe: Callable[[str], str]
    """Adds who and where to the title of an operation."""


class Directory:
    """The ids by which two ranks meet, and who has left; kept in the store."""

    def __init__(self, place: Place) -> None:
        self._place = place
        # torch complains aloud each time that a store is asked whose host has ended.
        self._is_gone = False

    def publish(self) -> None:
        """Lays out the ids of this rank's sends. It must have joined the group, whose coordinator they then lead to."""
        library = nccl.library()
        ids = [library.unique_id().to_bytes() for _ in range(2 * self._place.size)]
        self._place.store.set(f"ids/{self._place.rank}", b"".join(ids))

    def unique_id(self, source: int, target: int, is_framed: bool) -> bytes:
        key = f"ids/{source}"
        deadline = time.monotonic() + self._place.timeout
        while not self._place.store.check([key]):
            # Not `get`: it would keep everybody else from the store while it waits.
            if helpers.pause(_LOOK_SECONDS) or time.monotonic() > deadline:
                raise NcclError(f"rank {source} has joined the group and not laid out its ids")
        ids = self._place.store.get(key)
        at = (2 * target + int(is_framed)) * nccl.UNIQUE_ID_BYTES
        return ids[at : at + nccl.UNIQUE_ID_BYTES]

    def say_left(self) -> None:
        """This rank answers nobody any more."""
        try:
            if not self._is_gone:
                self._place.store.set(f"left/{self._place.rank}", "1")
        except RuntimeError:
            self._is_gone = True

    def has_left(self, rank: int) -> bool:
        try:
            return not self._is_gone and self._place.store.check([f"left/{rank}"])
        except RuntimeError:
            self._is_gone = True
            return False


class Knocks:
    """How many messages each rank has sent to each, told through the store by a thread, so that sends do not wait."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: Counter[str] = Counter()
        self._wake = threading.Condition()
        self._helper: Helper | None = None
        self._is_closed = False

    @staticmethod
    def _key(source: int, target: int, is_framed: bool) -> str:
        return f"sent/{source}/{target}/{'framed' if is_framed else 'plain'}"

    def knock(self, target: int, is_framed: bool) -> None:
        """One more message is on its way to `target`."""
        with self._wake:
            self._open[self._key(self._place.rank, target, is_framed)] += 1
            if self._helper is None:
                self._helper = Helper("fakegpu-knocks", self._loop, self._rouse)
            else:
                self._wake.notify()

    def close(self) -> None:
        """No more messages are sent; those before are still told."""
        self._is_closed = True
        if self._helper is not None:
            self._helper.end()

    def _rouse(self) -> None:
        with self._wake:
            self._wake.notify()

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not self._open and not self._is_closed and not helpers.is_leaving():
                    self._wake.wait()
                if not self._open:
                    return
                knocks, self._open = self._open, Counter()
            try:
                for key, count in knocks.items():
                    self._place.store.add(key, count)
            except RuntimeError:
                return  # The store is gone; so is everybody who could look.
            # What is sent meanwhile is told in one.
            helpers.pause(_KNOCK_SECONDS)

    def count(self, source: int, is_framed: bool) -> int:
        """Messages that `source` has begun to send to this rank."""
        key = self._key(source, self._place.rank, is_framed)
        return self._place.store.add(key, 0) if self._place.store.check([key]) else 0


@dataclass(eq=False)
class Request:
    """A receive that waits for its message."""

    tensor: Tensor
    tag: int
    work: Work
    deadline: float

    def take(self, payload: Tensor, source: int) -> None:
        """Fills the tensor with a message's bytes."""
        wanted = self.tensor.numel() * self.tensor.element_size()
        if payload.numel() != wanted:
            self.refuse(payload.numel(), source)
            return
        with torch.inference_mode():
            self.tensor.copy_(payload.view(self.tensor.dtype).view(self.tensor.shape))
        self.work.finish(source=source)

    def refuse(self, nbytes: int, source: int) -> None:
        wanted = self.tensor.numel() * self.tensor.element_size()
        self.work.finish(
            DistBackendError(
                f"message size differs: rank {source} sent {nbytes} bytes with tag {self.tag}, "
                f"the receive takes {wanted}: give both sides tensors of one shape and type\n(in {self.work.title})"
            )
        )


class Mailbox:
    """Messages with tags from one source. Whoever asks posts a request and lets the lane receive until one is met."""

    def __init__(
        self,
        source: int,
        target: int,
        lane: Lane,
        join: Callable[[], Communicator],
        strays: Callable[[int], Request | None],
    ) -> None:
        self._source = source
        self._target = target
        self._lane = lane
        self._join = join
        self._strays = strays
        self._posted: deque[Request] = deque()
        self._kept: deque[tuple[int, Tensor]] = deque()
        self._lock = threading.Lock()
        self.taken = 0
        """Messages received, or about to be for a receive from any source."""

    def post(self, request: Request, timeout: float) -> None:
        """Meets a request now or when its message comes."""
        kept = self.kept(request.tag, request)
        if kept is not None:
            request.take(kept, self._source)
        else:
            self._pump(request.work.title, timeout, self._receive_until_met)

    def kept(self, tag: int, otherwise: Request | None = None) -> Tensor | None:
        """The first kept message of a tag; if there is none, `otherwise` is posted."""
        with self._lock:
            for at, (kept_tag, payload) in enumerate(self._kept):
                if kept_tag == tag:
                    del self._kept[at]
                    return payload
            if otherwise is not None:
                self._posted.append(otherwise)
            return None

    def expect(self, title: str, timeout: float) -> None:
        """Receives one message that is known to be on its way."""
        with self._lock:
            self.taken += 1
        self._pump(title, timeout, self._receive_counted)

    def _pump(self, title: str, timeout: float, run: Callable[[], None]) -> None:
        work = Work(title, [])
        work.then(lambda: self._fail(work))
        self._lane.submit(Task(work, run, timeout))

    def _fail(self, pump: Work) -> None:
        error = pump.exception()
        if error is None:
            return
        with self._lock:
            posted, self._posted = self._posted, deque()
        for request in posted:
            request.work.finish(error)

    def _receive_until_met(self) -> None:
        while self._posted:
            with self._lock:
                self.taken += 1
            if self._receive_counted():
                return

    def _receive_counted(self) -> bool:
        """Receives a message; whether a posted request was met."""
        header = torch.empty(2, dtype=torch.int64)
        with _group_ranks(self._source, self._target):
            comm = self._join()
            comm.recv(header.data_ptr(), 2, nccl.INT64, _SENDER)
            tag, nbytes = header.tolist()
            payload = torch.empty(nbytes, dtype=torch.uint8)
            comm.recv(payload.data_ptr(), nbytes, nccl.UINT8, _SENDER)
        return self._deliver(tag, payload)

    def _deliver(self, tag: int, payload: Tensor) -> bool:
        with self._lock:
            request = next((request for request in self._posted if request.tag == tag), None)
            if request is not None:
                self._posted.remove(request)
        if request is not None:
            request.take(payload, self._source)
            return True
        stray = self._strays(tag)
        if stray is not None:
            stray.take(payload, self._source)
            return False
        with self._lock:
            self._kept.append((tag, payload))
        return False


class Loopback:
    """Messages of a rank to itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: deque[tuple[int, Tensor, Work]] = deque()
        self._posted: deque[Request] = deque()

    def send(self, tensor: Tensor, tag: int, work: Work) -> None:
        payload = _bytes_of(tensor).clone()
        with self._lock:
            request = next((request for request in self._posted if request.tag == tag), None)
            if request is not None:
                self._posted.remove(request)
            else:
                self._sent.append((tag, payload, work))
        if request is not None:
            request.take(payload, -1)
            work.finish()

    def recv(self, request: Request, rank: int) -> None:
        with self._lock:
            at = next((at for at, message in enumerate(self._sent) if message[0] == request.tag), None)
            message = None
            if at is not None:
                message = self._sent[at]
                del self._sent[at]
            else:
                self._posted.append(request)
        if message is not None:
            request.take(message[1], rank)
            message[2].finish()


class Pairs:
    """All point-to-point traffic of one rank in one group."""

    def __init__(self, place: Place, health: Callable[[], str | None]) -> None:
        self._place = place
        self._health = health
        self.directory = Directory(place)
        self._knocks = Knocks(place)
        self._lock = threading.Lock()
        self._lanes: dict[tuple[int, int, bool], Lane] = {}
        self._mailboxes: dict[int, Mailbox] = {}
        self._claimed: Counter[int] = Counter()
        self._loopback = Loopback()
        self._strays: list[Request] = []
        self._search: Helper | None = None

    def send(self, tensor: Tensor, target: int, tag: int) -> Work:
        work = Work(self._place.describe(f"send to rank {target}, tag {tag}, of {_shape(tensor)}"), [tensor])
        if target == self._place.rank:
            self._loopback.send(tensor, tag, work)
            return work
        lane = self._lane(self._place.rank, target, is_framed=tag != 0)
        run = self._framed_send if tag else self._plain_send
        self._knocks.knock(target, is_framed=tag != 0)

        def send() -> None:
            with _group_ranks(self._place.rank, target):
                run(lane, tensor, target, tag)

        lane.submit(Task(work, send, self._place.timeout))
        return work

    def _plain_send(self, lane: Lane, tensor: Tensor, target: int, _: int) -> None:
        comm = self._join(lane, self._place.rank, target, False)
        buffer = tensor.detach().contiguous()
        comm.send(buffer.data_ptr(), *dtypes.moved(buffer), _RECEIVER)

    def _framed_send(self, lane: Lane, tensor: Tensor, target: int, tag: int) -> None:
        comm = self._join(lane, self._place.rank, target, True)
        buffer = tensor.detach().contiguous()
        header = torch.tensor([tag, buffer.numel() * buffer.element_size()], dtype=torch.int64)
        comm.send(header.data_ptr(), 2, nccl.INT64, _RECEIVER)
        comm.send(buffer.data_ptr(), *dtypes.moved(buffer), _RECEIVER)

    def recv(self, tensor: Tensor, source: int, tag: int) -> Work:
        work = Work(self._place.describe(f"recv from rank {source}, tag {tag}, of {_shape(tensor)}"), [tensor])
        request = self._request(tensor, tag, work)
        if source == self._place.rank:
            self._loopback.recv(request, source)
        elif tag:
            self._mailbox(source).post(request, self._place.timeout)
        else:
            self._plain_recv(request, source)
        return work

    def _plain_recv(self, request: Request, source: int) -> None:
        with self._lock:
            self._claimed[source] += 1
        lane = self._lane(source, self._place.rank, is_framed=False)

        def run() -> None:
            tensor = request.tensor
            buffer = tensor if tensor.is_contiguous() else torch.empty(tensor.shape, dtype=tensor.dtype)
            with _group_ranks(source, self._place.rank):
                comm = self._join(lane, source, self._place.rank, False)
                comm.recv(buffer.data_ptr(), *dtypes.moved(buffer), _SENDER)
            if buffer is not tensor:
                with torch.inference_mode():
                    tensor.copy_(buffer)
            request.work.finish(source=source)

        lane.submit(Task(request.work, run, self._place.timeout))

    def recv_any(self, tensor: Tensor, tag: int) -> Work:
        """Receives the next message of a tag, whoever sends it."""
        work = Work(self._place.describe(f"recv from any rank, tag {tag}, of {_shape(tensor)}"), [tensor])
        request = self._request(tensor, tag, work)
        for source, mailbox in list(self._mailboxes.items()) if tag else []:
            kept = mailbox.kept(tag)
            if kept is not None:
                request.take(kept, source)
                return work
        with self._lock:
            self._strays.append(request)
            if self._search is None:
                self._search = Helper("fakegpu-any-source", self._look_for_senders)
        return work

    def _request(self, tensor: Tensor, tag: int, work: Work) -> Request:
        return Request(tensor.detach(), tag, work, time.monotonic() + self._place.timeout)

    def _take_stray(self, tag: int) -> Request | None:
        """The oldest open receive from any source with that tag."""
        with self._lock:
            request = next((request for request in self._strays if request.tag == tag), None)
            if request is not None:
                self._strays.remove(request)
            return request

    def _look_for_senders(self) -> None:
        """While receives from any source are open, claims messages whose senders have knocked."""
        pause = _LOOK_SECONDS
        while True:
            with self._lock:
                tags = {request.tag for request in self._strays}
                if not tags or helpers.is_leaving():
                    self._search = None
                    return
            try:
                found = self._claim_plain() if 0 in tags else False
                found |= self._claim_framed() if tags - {0} else False
            except RuntimeError as error:
                self._fail_strays(lambda _: True, f"the store, by which senders are found, is gone: {error}")
                continue
            self._drop_hopeless()
            pause = _LOOK_SECONDS if found else min(2 * pause, _LOOK_SECONDS_MAX)
            helpers.pause(pause)

    def _others(self) -> list[int]:
        return [rank for rank in range(self._place.size) if rank != self._place.rank]

    def _claim_plain(self) -> bool:
        found = False
        for source in self._others():
            if self._knocks.count(source, False) <= self._claimed[source]:
                continue
            request = self._take_stray(0)
            if request is None:
                return found
            self._plain_recv(request, source)
            found = True
        return found

    def _claim_framed(self) -> bool:
        found = False
        for source in self._others():
            count = self._knocks.count(source, True)
            if count == 0:
                continue
            mailbox = self._mailbox(source)
            while mailbox.taken < count:
                mailbox.expect(self._place.describe(f"recv from any rank, now rank {source}"), self._place.timeout)
                found = True
        return found

    def _drop_hopeless(self) -> None:
        now, reason = time.monotonic(), self._health()
        if reason is not None:
            self._fail_strays(lambda _: True, reason)
        late = f"timeout: no rank has sent within the group's {self._place.timeout:g} s"
        self._fail_strays(lambda request: now > request.deadline, late)

    def _fail_strays(self, which: Callable[[Request], bool], reason: str) -> None:
        with self._lock:
            failed = [request for request in self._strays if which(request)]
            self._strays = [request for request in self._strays if not which(request)]
        for request in failed:
            request.work.finish(DistBackendError(f"{reason}\n(in {request.work.title})"))

    def _lane(self, source: int, target: int, is_framed: bool) -> Lane:
        key = (source, target, is_framed)
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                peer = source if target == self._place.rank else target
                lane = Lane(f"fakegpu-{source}-to-{target}", f"rank {peer}")
                lane.watch_with(lambda: self._why_never(lane, peer))
                self._lanes[key] = lane
        return lane

    def _why_never(self, lane: Lane, peer: int) -> str | None:
        """Why an operation with `peer` cannot end any more, as far as the coordinator does not tell it itself."""
        reason = self._health()
        if reason is None and lane.comm is None and self.directory.has_left(peer):
            reason = f"rank {peer} has left before it met this rank here"
        return reason

    def _mailbox(self, source: int) -> Mailbox:
        lane = self._lane(source, self._place.rank, is_framed=True)
        with self._lock:
            mailbox = self._mailboxes.get(source)
            if mailbox is None:
                join = lambda: self._join(lane, source, self._place.rank, True)  # noqa: E731
                mailbox = Mailbox(source, self._place.rank, lane, join, self._take_stray)
                self._mailboxes[source] = mailbox
        return mailbox

    def _join(self, lane: Lane, source: int, target: int, is_framed: bool) -> Communicator:
        """The direction's communicator, made at its first use; in the lane's own thread."""
        if lane.comm is None:
            unique_id = self.directory.unique_id(source, target, is_framed)
            seat = _SENDER if source == self._place.rank else _RECEIVER
            return lane.adopt(Communicator.join(unique_id, seat, 2))
        return lane.comm

    def close(self) -> None:
        """Ends all traffic; sends under way have a while to end, receives that are left open have not."""
        now = time.monotonic()
        for (source, _, _), lane in sorted(self._lanes.items(), key=lambda item: item[0][0] != self._place.rank):
            lane.close(now + DRAIN_SECONDS if source == self._place.rank else now)
        self._fail_strays(lambda _: True, "the process group was destroyed while this waited")
        self._end()

    def abort(self, reason: str) -> None:
        """Ends all traffic at once."""
        for lane in list(self._lanes.values()):
            lane.give_up(reason)
        self._fail_strays(lambda _: True, reason)
        self._end()

    def _end(self) -> None:
        self._knocks.close()
        self.directory.say_left()


@contextlib.contextmanager
def _group_ranks(source: int, target: int) -> Iterator[None]:
    """In a sentence about the two ranks of a direction, ranks get the numbers that they have in the group."""
    try:
        yield
    except NcclError as error:
        ranks = (source, target)

        def renumbered(match: re.Match[str]) -> str:
            return re.sub(r"[01]\b", lambda rank: str(ranks[int(rank[0])]), match[0])

        raise NcclError(re.sub(r"\branks? [01](?:(?:, | and )[01])*\b", renumbered, str(error))) from None


def _bytes_of(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _shape(tensor: Tensor) -> str:
    return f"{tensor.numel()} x {str(tensor.dtype).removeprefix('torch.')}"
