// Where a rank stands and how the ranks of a client find each other: RANK, WORLD_SIZE and a folder they share.
#pragma once

#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace demo {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Ends the process with a sentence: clients have nothing to clean up that the process does not.
[[noreturn]] inline void fail(const std::string &sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

struct Place {
  int rank = 0;
  int ranks = 1;
  std::filesystem::path folder;  // fresh for every run: a file left from the last one would be believed

  std::string name() const { return "rank " + std::to_string(rank); }
};

inline int number_from_environment(const char *name) {
  const char *text = std::getenv(name);
  char *end = nullptr;
  long number = text ? std::strtol(text, &end, 10) : -1;
  if (!text || end == text || *end != '\0' || number < 0 || number > 1'000'000)
    fail(std::string(name) + " must be set to a number; it is " + (text ? "`" + std::string(text) + "`" : "unset"));
  return static_cast<int>(number);
}

// The folder is `argument`, or else $COLLECTIVES_DIR.
inline Place place(const std::string &argument) {
  Place place;
  place.rank = number_from_environment("RANK");
  place.ranks = number_from_environment("WORLD_SIZE");
  if (place.rank >= place.ranks) fail("RANK must be smaller than WORLD_SIZE");
  const char *folder = std::getenv("COLLECTIVES_DIR");
  if (argument.empty() && !folder) fail("name a fresh folder that all ranks share: --dir or COLLECTIVES_DIR");
  place.folder = argument.empty() ? folder : argument;
  std::filesystem::create_directories(place.folder);
  return place;
}

// Waits until `ready` holds, a minute at most.
inline void wait_for(const std::string &what, const std::function<bool()> &ready) {
  const auto start = Clock::now();
  while (!ready()) {
    if (milliseconds_since(start) > 60'000) fail("waited a minute for " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Puts a file in place whole: written beside it, then renamed.
inline void publish(const std::filesystem::path &path, const void *data, std::size_t bytes) {
  const std::filesystem::path draft = path.string() + ".draft." + std::to_string(getpid());
  std::ofstream file(draft, std::ios::binary);
  file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  file.close();
  if (!file) fail("cannot write " + draft.string());
  std::filesystem::rename(draft, path);
}

inline std::string last_error() {
  const char *text = ncclGetLastError(nullptr);
  return text && *text ? text : "(no text)";
}

inline void check(ncclResult_t result, const std::string &call) {
  if (result == ncclSuccess) return;
  fail(call + " returned " + std::to_string(result) + ", " + ncclGetErrorString(result) + ": " + last_error());
}

// Joins the communicator of all ranks: rank 0 publishes the id, the others wait for it.
inline ncclComm_t join(const Place &place) {
  const auto path = place.folder / "nccl.id";
  ncclUniqueId id{};
  if (place.rank == 0) {
    check(ncclGetUniqueId(&id), "rank 0: ncclGetUniqueId");
    publish(path, &id, sizeof id);
  } else {
    wait_for("rank 0 to publish " + path.string(), [&] { return std::filesystem::exists(path); });
    std::ifstream file(path, std::ios::binary);
    if (!file.read(reinterpret_cast<char *>(&id), sizeof id)) fail("cannot read an id from " + path.string());
  }
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, place.ranks, id, place.rank), place.name() + ": ncclCommInitRank");
  return comm;
}

}  // namespace demo
