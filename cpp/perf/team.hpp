// The processes of a job and the threads of a process, and how they tell each other things.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace perf {

// The processes: RANK and WORLD_SIZE say who this is, MASTER_ADDR and MASTER_PORT where process 0 is found, as
// `fakegpu run`, torchrun and others set them. They talk past the library that is measured: what it does wrong cannot
// spoil the verdict.
class Team {
 public:
  // Meets the others; a process without RANK and WORLD_SIZE is alone. Fails after a minute.
  Team();
  ~Team();
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }

  // Each process's words, in the order of processes, once all have given theirs.
  std::vector<std::string> exchange(const std::string &mine);

 private:
  void accept_others(int port);
  void connect_to_first(const std::string &address, int port);

  int process_ = 0, processes_ = 1;
  std::vector<int> sockets_;  // of process 0: to each other process; of others: to process 0
};

// All threads of all processes.
class Crew {
 public:
  Crew(Team &team, int threads);

  // Each thread's words, in the order of processes and threads, once all have given theirs.
  std::vector<std::string> exchange(int thread, const std::string &mine);

 private:
  Team &team_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::string> given_, told_;
  std::size_t here_ = 0;
  std::size_t round_ = 0;
};

}  // namespace perf
