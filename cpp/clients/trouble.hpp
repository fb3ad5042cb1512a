// What a program is promised when its ranks do not agree: an error on every rank, soon, with a sentence.
#pragma once

#include <csignal>

#include "rendezvous.hpp"

namespace trouble {

// Tells how a call failed. Returns the exit status: 0 if it failed as promised.
inline int report(const demo::Place &place, ncclResult_t got, bool promised, double milliseconds) {
  std::printf("rank %d: code %d (%s) after %.1f ms: %s\n", place.rank, got, ncclGetErrorString(got), milliseconds,
              demo::last_error().c_str());
  std::fflush(stdout);
  return promised ? 0 : 1;
}

// Rank 1 differs from the others in one argument.
inline int mismatch(const demo::Place &place, ncclComm_t comm, const std::string &what) {
  if (place.ranks < 2) demo::fail("a mismatch takes two ranks");
  const bool deviates = place.rank == 1;
  std::vector<float> send(1024, 1), recv(1024);
  const auto start = demo::Clock::now();
  ncclResult_t result = ncclSuccess;
  if (what == "op")
    result = ncclAllReduce(send.data(), recv.data(), 1024, ncclFloat, deviates ? ncclMax : ncclSum, comm, nullptr);
  else if (what == "count")
    result = ncclAllReduce(send.data(), recv.data(), deviates ? 1000 : 1024, ncclFloat, ncclSum, comm, nullptr);
  else if (what == "dtype")
    result = ncclAllReduce(send.data(), recv.data(), 1024, deviates ? ncclInt32 : ncclFloat, ncclSum, comm, nullptr);
  else if (what == "root")
    result = ncclReduce(send.data(), recv.data(), 1024, ncclFloat, ncclSum, deviates ? 1 : 0, comm, nullptr);
  else
    demo::fail("`" + what + "` is none of op, count, dtype, root");
  return report(place, result, result == ncclInvalidUsage, demo::milliseconds_since(start));
}

// The last rank joins, stays alive and never calls.
inline int missing(const demo::Place &place, ncclComm_t comm) {
  if (place.ranks < 2) demo::fail("a missing rank takes two ranks");
  const auto told = [&place](int rank) { return place.folder / ("told." + std::to_string(rank)); };
  if (place.rank == place.ranks - 1) {
    for (int rank = 0; rank < place.rank; ++rank) {
      const auto path = told(rank);
      demo::wait_for("rank " + std::to_string(rank) + " to be told", [&] { return std::filesystem::exists(path); });
    }
    return 0;
  }
  float value = 1;
  const auto start = demo::Clock::now();
  const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
  const int status = report(place, result, result == ncclSystemError, demo::milliseconds_since(start));
  demo::publish(told(place.rank), "", 0);
  return status;
}

// `victim` is RANK@N: that rank kills itself before its Nth call, counted from 1.
inline int death(const demo::Place &place, ncclComm_t comm, const std::string &victim) {
  int rank = 0, call = 0;
  char rest = 0;
  if (std::sscanf(victim.c_str(), "%d@%d%c", &rank, &call, &rest) != 2 || rank < 0 || rank >= place.ranks || call < 1)
    demo::fail("`" + victim + "` is not RANK@N with a rank of this run and a call from 1 on");
  std::vector<float> data(1024, 1);
  for (int at = 1; at <= call + 1000; ++at) {
    if (place.rank == rank && at == call) std::raise(SIGKILL);
    const auto start = demo::Clock::now();
    const ncclResult_t result =
        ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax, comm, nullptr);
    if (result == ncclSuccess) continue;
    std::printf("rank %d: call %d failed\n", place.rank, at);
    return report(place, result, at >= call, demo::milliseconds_since(start));
  }
  demo::fail(place.name() + ": " + std::to_string(call + 1000) + " calls succeeded although rank " +
             std::to_string(rank) + " died");
}

// Calls collectives of changing kind and size until one fails: somebody else is going to be killed.
inline int until_failure(const demo::Place &place, ncclComm_t comm) {
  const std::size_t largest = 1 << 16, ranks = static_cast<std::size_t>(place.ranks);
  std::vector<float> send(largest * ranks, 1), recv(largest * ranks);
  for (std::size_t at = 0; at < 10'000'000; ++at) {
    const std::size_t count = 1 + at * 7919 % largest;
    const auto start = demo::Clock::now();
    ncclResult_t result = ncclSuccess;
    switch (at % 4) {
      case 0: result = ncclAllReduce(send.data(), recv.data(), count, ncclFloat, ncclSum, comm, nullptr); break;
      case 1: result = ncclAllGather(send.data(), recv.data(), count, ncclFloat, comm, nullptr); break;
      case 2: result = ncclReduceScatter(send.data(), recv.data(), count, ncclFloat, ncclSum, comm, nullptr); break;
      default: result = ncclBroadcast(send.data(), recv.data(), count, ncclFloat, 0, comm, nullptr);
    }
    if (result == ncclSuccess) continue;
    const double took = demo::milliseconds_since(start);
    return report(place, result, result == ncclRemoteError && took < 1000, took);
  }
  demo::fail(place.name() + ": nothing ever failed");
}

}  // namespace trouble
