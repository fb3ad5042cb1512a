// Point to point among processes: what pairs, what waits for nobody, what must fail, and with which bytes.
//
//   pairs [--dir FOLDER]                  everything that must work
//   pairs --unequal SENT RECEIVED         rank 0 sends, rank 1 receives another number: both must be refused
//   pairs --circle                        ranks send to each other without a group: all must be told
//   pairs --huge                          counts beyond 2^31; only with FAKEGPU_PAYLOAD=off, since there is no memory behind
//   pairs --left                          rank 1 leaves while the last rank still sends to it
//
// RANK and WORLD_SIZE say who this is; FOLDER or $COLLECTIVES_DIR is a fresh folder that all ranks share.
// Exit status: 0 as promised, 1 with a sentence otherwise.

#include <cstdint>
#include <cstring>
#include <vector>

#include "trouble.hpp"

namespace {

using demo::check;
using demo::fail;
using demo::Place;

// Bytes that tell who sent them to whom, in which round.
std::uint8_t pattern(int src, int dst, int round, std::size_t at) {
  return static_cast<std::uint8_t>(at * 31 + static_cast<std::size_t>(src * 7 + dst * 13 + round * 101));
}

std::vector<std::uint8_t> outgoing(int src, int dst, int round, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t at = 0; at < bytes; ++at) data[at] = pattern(src, dst, round, at);
  return data;
}

void expect(const std::vector<std::uint8_t> &got, int src, int dst, int round, const std::string &what) {
  for (std::size_t at = 0; at < got.size(); ++at)
    if (got[at] != pattern(src, dst, round, at))
      fail(what + ": rank " + std::to_string(dst) + " got a wrong byte " + std::to_string(at) + " from rank " +
           std::to_string(src));
}

struct Group {
  explicit Group(const std::string &name) : name(name) { check(ncclGroupStart(), name + ": ncclGroupStart"); }
  void end() const { check(ncclGroupEnd(), name + ": ncclGroupEnd"); }
  std::string name;
};

void send(const std::vector<std::uint8_t> &data, int peer, ncclComm_t comm) {
  check(ncclSend(data.data(), data.size(), ncclUint8, peer, comm, nullptr), "ncclSend");
}

void recv(std::vector<std::uint8_t> &data, int peer, ncclComm_t comm) {
  check(ncclRecv(data.data(), data.size(), ncclUint8, peer, comm, nullptr), "ncclRecv");
}

constexpr std::size_t SIZES[] = {0, 1, 4095, 4096, 65'537, (1 << 20) + 3};

// Rank r sends to r + by, everybody listing the send first.
void rings(const demo::Place &place, ncclComm_t comm) {
  for (int by = 0; by < place.ranks; ++by)
    for (std::size_t bytes : SIZES) {
      const int to = (place.rank + by) % place.ranks, from = (place.rank + place.ranks - by) % place.ranks;
      const auto out = outgoing(place.rank, to, by, bytes);
      std::vector<std::uint8_t> in(bytes);
      const Group group("a ring");
      send(out, to, comm);
      recv(in, from, comm);
      group.end();
      expect(in, from, place.rank, by, "a ring");
    }
}

// Only ranks 0 and the last take part; the others are elsewhere.
void a_pair_alone(const demo::Place &place, ncclComm_t comm) {
  const int last = place.ranks - 1;
  if (last == 0) return;
  for (int round = 0; round < 50; ++round) {
    auto data = outgoing(0, last, round, 1 + static_cast<std::size_t>(round) * 997);
    if (place.rank == 0) send(data, last, comm);
    if (place.rank == last) {
      std::vector<std::uint8_t> in(data.size());
      recv(in, 0, comm);
      expect(in, 0, last, round, "a pair alone");
    }
  }
}

// Every rank sends every other (src * dst) % 5 * 1000 bytes; ranks whose row is empty may pass NULL.
void all_to_all_v(const demo::Place &place, ncclComm_t comm) {
  const auto bytes = [](int src, int dst) { return static_cast<std::size_t>(src * dst % 5) * 1000; };
  std::vector<std::vector<std::uint8_t>> out, in;
  const Group group("all-to-all-v");
  for (int peer = 0; peer < place.ranks; ++peer) {
    out.push_back(outgoing(place.rank, peer, 3, bytes(place.rank, peer)));
    in.emplace_back(bytes(peer, place.rank));
  }
  for (int peer = 0; peer < place.ranks; ++peer) {
    const void *from = out[peer].empty() ? nullptr : out[peer].data();
    void *to = in[peer].empty() ? nullptr : in[peer].data();
    check(ncclSend(from, out[peer].size(), ncclUint8, peer, comm, nullptr), "ncclSend");
    check(ncclRecv(to, in[peer].size(), ncclUint8, peer, comm, nullptr), "ncclRecv");
  }
  group.end();
  for (int peer = 0; peer < place.ranks; ++peer) expect(in[peer], peer, place.rank, 3, "all-to-all-v");
}

// Collectives and transfers in one group, in another order on every other rank.
void a_mixed_group(const demo::Place &place, ncclComm_t comm) {
  const int next = (place.rank + 1) % place.ranks, previous = (place.rank + place.ranks - 1) % place.ranks;
  for (int round = 0; round < 20; ++round) {
    const auto out = outgoing(place.rank, next, round, 3000);
    std::vector<std::uint8_t> in(3000);
    float mine = static_cast<float>(place.rank + round), sum = 0, largest = 0;
    const Group group("a mixed group");
    const auto transfers = [&] {
      send(out, next, comm);
      recv(in, previous, comm);
    };
    if (place.rank % 2 == 0) transfers();
    check(ncclAllReduce(&mine, &sum, 1, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
    if (place.rank % 2 == 1) transfers();
    check(ncclAllReduce(&mine, &largest, 1, ncclFloat, ncclMax, comm, nullptr), "ncclAllReduce");
    group.end();
    expect(in, previous, place.rank, round, "a mixed group");
    const float wanted = static_cast<float>(place.ranks * (place.ranks - 1) / 2 + place.ranks * round);
    if (sum != wanted || largest != static_cast<float>(place.ranks - 1 + round)) fail("a mixed group reduced wrong");
  }
}

// AlltoAll, Gather and Scatter by name on even ranks, by sends and receives on odd ones.
void names_pair_with_their_grouped_forms(const demo::Place &place, ncclComm_t comm) {
  const std::size_t count = 1001, ranks = static_cast<std::size_t>(place.ranks);
  std::vector<std::uint8_t> all(count * ranks), got(count * ranks), one(count);
  const auto block = [&](int peer) { return got.data() + count * static_cast<std::size_t>(peer); };
  for (int named = 0; named < 3; ++named) {
    const bool by_name = named == 2 || place.rank % 2 == named;
    for (int peer = 0; peer < place.ranks; ++peer) {
      const auto part = outgoing(place.rank, peer, named, count);
      std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(count * peer));
    }
    if (by_name) {
      check(ncclAlltoAll(all.data(), got.data(), count, ncclUint8, comm, nullptr), "ncclAlltoAll");
    } else {
      const Group group("a grouped all-to-all");
      for (int peer = 0; peer < place.ranks; ++peer) {
        check(ncclSend(all.data() + count * peer, count, ncclUint8, peer, comm, nullptr), "ncclSend");
        check(ncclRecv(block(peer), count, ncclUint8, peer, comm, nullptr), "ncclRecv");
      }
      group.end();
    }
    for (int peer = 0; peer < place.ranks; ++peer)
      expect({block(peer), block(peer) + count}, peer, place.rank, named, "an all-to-all");
    const int root = named % place.ranks;
    const auto mine = outgoing(place.rank, root, 40 + named, count);
    if (by_name) {
      check(ncclGather(mine.data(), place.rank == root ? got.data() : nullptr, count, ncclUint8, root, comm, nullptr),
            "ncclGather");
    } else {
      const Group group("a grouped gather");
      send(mine, root, comm);
      for (int peer = 0; peer < place.ranks && place.rank == root; ++peer)
        check(ncclRecv(block(peer), count, ncclUint8, peer, comm, nullptr), "ncclRecv");
      group.end();
    }
    for (int peer = 0; peer < place.ranks && place.rank == root; ++peer)
      expect({block(peer), block(peer) + count}, peer, root, 40 + named, "a gather");
    check(ncclScatter(place.rank == root ? all.data() : nullptr, one.data(), count, ncclUint8, root, comm, nullptr),
          "ncclScatter");
    expect(one, root, place.rank, named, "a scatter");
  }
}

// Thousands of transfers in one group, many of them on one pair.
void a_long_group(const demo::Place &place, ncclComm_t comm) {
  const int rounds = 1000, next = (place.rank + 1) % place.ranks;
  const int previous = (place.rank + place.ranks - 1) % place.ranks;
  std::vector<std::vector<std::uint8_t>> out, in;
  for (int round = 0; round < rounds; ++round) {
    out.push_back(outgoing(place.rank, next, round, static_cast<std::size_t>(round % 70)));
    in.emplace_back(static_cast<std::size_t>(round % 70));
  }
  const Group group("a long group");
  for (int round = 0; round < rounds; ++round) {
    send(out[round], next, comm);
    recv(in[round], previous, comm);
  }
  group.end();
  for (int round = 0; round < rounds; ++round) expect(in[round], previous, place.rank, round, "a long group");
}

// Rank 0 groups what rank 1 calls one after the other.
void grouped_on_one_side_only(const demo::Place &place, ncclComm_t comm) {
  if (place.rank > 1 || place.ranks < 2) return;
  const int peer = 1 - place.rank;
  const auto out = outgoing(place.rank, peer, 9, 5000);
  std::vector<std::uint8_t> in(5000);
  if (place.rank == 0) check(ncclGroupStart(), "ncclGroupStart");
  send(out, peer, comm);
  recv(in, peer, comm);
  if (place.rank == 0) check(ncclGroupEnd(), "ncclGroupEnd");
  expect(in, peer, place.rank, 9, "grouped on one side");
}

// Two communicators in one group, and the message between them in both.
void two_communicators(const demo::Place &place, ncclComm_t comm) {
  ncclComm_t other = nullptr;
  check(ncclCommSplit(comm, 0, -place.rank, &other, nullptr), "ncclCommSplit");
  int seen = -1;
  check(ncclCommUserRank(other, &seen), "ncclCommUserRank");
  if (seen != place.ranks - 1 - place.rank) fail("a split by descending keys must turn the order round");
  const int next = (place.rank + 1) % place.ranks, previous = (place.rank + place.ranks - 1) % place.ranks;
  const auto turned = [&](int rank) { return place.ranks - 1 - rank; };
  const auto here = outgoing(place.rank, next, 1, 100), there = outgoing(place.rank, previous, 2, 200);
  std::vector<std::uint8_t> got_here(100), got_there(200);
  const Group group("two communicators");
  send(here, next, comm);
  send(there, turned(previous), other);
  recv(got_there, turned(next), other);
  recv(got_here, previous, comm);
  group.end();
  expect(got_here, previous, place.rank, 1, "the first communicator");
  expect(got_there, next, place.rank, 2, "the second communicator");
  check(ncclCommDestroy(other), "ncclCommDestroy");
}

int everything(const demo::Place &place, ncclComm_t comm) {
  rings(place, comm);
  a_pair_alone(place, comm);
  all_to_all_v(place, comm);
  a_mixed_group(place, comm);
  names_pair_with_their_grouped_forms(place, comm);
  a_long_group(place, comm);
  grouped_on_one_side_only(place, comm);
  two_communicators(place, comm);
  std::uint64_t right = 1;
  check(ncclAllReduce(&right, &right, 1, ncclUint64, ncclSum, comm, nullptr), "the final count");
  if (place.rank == 0) std::printf("%llu of %d ranks right\n", static_cast<unsigned long long>(right), place.ranks);
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  return 0;
}

int unequal(const demo::Place &place, ncclComm_t comm, std::size_t sent, std::size_t received) {
  std::vector<float> data(std::max(sent, received) + 1, 42.0f);
  const auto start = demo::Clock::now();
  ncclResult_t result = ncclInvalidUsage;
  if (place.rank == 0) result = ncclSend(data.data(), sent, ncclFloat, 1, comm, nullptr);
  if (place.rank == 1) result = ncclRecv(data.data(), received, ncclFloat, 0, comm, nullptr);
  for (float value : data)
    if (value != 42.0f) fail("a refused receive touched its buffer");
  return trouble::report(place, result, result == ncclInvalidUsage, demo::milliseconds_since(start));
}

int circle(const demo::Place &place, ncclComm_t comm) {
  std::vector<float> data(16);
  const auto start = demo::Clock::now();
  const int next = (place.rank + 1) % place.ranks;
  const ncclResult_t result = ncclSend(data.data(), data.size(), ncclFloat, next, comm, nullptr);
  return trouble::report(place, result, result == ncclInvalidUsage, demo::milliseconds_since(start));
}

int left(const demo::Place &place, ncclComm_t comm) {
  const auto gone = place.folder / "gone";
  float value = 1;
  if (place.rank == 1) {
    check(ncclCommDestroy(comm), "ncclCommDestroy");
    demo::publish(gone, "", 0);
    return 0;
  }
  if (place.rank != place.ranks - 1) return 0;
  demo::wait_for("rank 1 to leave", [&] { return std::filesystem::exists(gone); });
  const auto start = demo::Clock::now();
  const ncclResult_t result = ncclSend(&value, 1, ncclFloat, 1, comm, nullptr);
  return trouble::report(place, result, result == ncclRemoteError, demo::milliseconds_since(start));
}

// Buffers of gigabytes that do not exist: without a payload nobody looks at them.
int huge(const Place &place, ncclComm_t comm) {
  const char *payload = std::getenv("FAKEGPU_PAYLOAD");
  if (!payload || std::string(payload) != "off") fail("--huge needs FAKEGPU_PAYLOAD=off");
  auto *send = reinterpret_cast<std::int8_t *>(std::uintptr_t{1} << 40);
  auto *recv = reinterpret_cast<std::int8_t *>(std::uintptr_t{1} << 41);
  const std::size_t many = (std::size_t{1} << 31) + 8;
  check(ncclAllReduce(send, recv, many, ncclInt8, ncclSum, comm, nullptr), "ncclAllReduce");
  check(ncclAllGather(send, recv, std::size_t{1} << 30, ncclInt8, comm, nullptr), "ncclAllGather");
  check(ncclReduceScatter(send, recv, (std::size_t{1} << 33) / static_cast<std::size_t>(place.ranks), ncclInt8, ncclSum,
                          comm, nullptr),
        "ncclReduceScatter");
  if (place.rank == 0) check(ncclSend(send, many, ncclFloat, 1, comm, nullptr), "ncclSend");
  if (place.rank == 1) check(ncclRecv(recv, many, ncclFloat, 0, comm, nullptr), "ncclRecv");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  return 0;
}

std::size_t number(const char *text) {
  char *end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0') fail("`" + std::string(text) + "` is no number");
  return value;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const demo::Place place = demo::place(mode == "--dir" && argc > 2 ? argv[2] : "");
  const ncclComm_t comm = demo::join(place);
  if (mode == "--unequal" && argc == 4) return unequal(place, comm, number(argv[2]), number(argv[3]));
  if (mode == "--circle") return circle(place, comm);
  if (mode == "--left") return left(place, comm);
  if (mode == "--huge") return huge(place, comm);
  if (!mode.empty() && mode != "--dir") fail("`" + mode + "` is unknown");
  return everything(place, comm);
}
