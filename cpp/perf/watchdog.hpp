// Ends a process whose ranks make no progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "fail.hpp"

namespace perf {

class Watchdog {
 public:
  // Without a limit, in seconds, it sleeps.
  explicit Watchdog(int limit) : limit_(limit), deadline_(Clock::now() + limit_) {
    if (limit > 0) thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  // Progress was made: the limit counts from now.
  void restart() {
    const std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + limit_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (Clock::now() >= deadline_)
        fail("--timeout: one measurement took longer than " + std::to_string(limit_.count()) + " s");
      const auto deadline = deadline_;
      ended_.wait_until(lock, deadline);
    }
  }

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable ended_;
  Clock::time_point deadline_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace perf
