// Performance and correctness of each NCCL operation, with the options and columns of NVIDIA's nccl-tests and none of
// their code. One program under ten names: called as all_reduce_perf it measures ncclAllReduce; called by another
// name, its first argument is the program.
//
//   fakegpu run --nodes 2 --ranks-per-node 2 -- all_reduce_perf -b 8 -e 1M -f 2
//   all_reduce_perf -t 2 -g 2                     4 ranks in one process
//
// Beside the time of this host, `model` is what the described cluster would have taken.
//
// Read options.cpp (what can be asked), operations.cpp (the table of operations), pattern.hpp (what is sent and what
// must arrive), then bench.cpp (how a line comes about).

#include <cstring>
#include <mutex>
#include <thread>

#include "bench.hpp"
#include "fail.hpp"
#include "options.hpp"
#include "report.hpp"
#include "session.hpp"
#include "team.hpp"
#include "watchdog.hpp"

namespace {

using namespace perf;

// What all threads of the process share.
struct Job {
  const Options &options;
  const Place place;
  Crew &crew;
  ncclUniqueId id;
  Report *report;  // of process 0; only its first thread writes
  Watchdog &watchdog;
};

std::string joined(const std::vector<std::string> &parts) {
  std::string all;
  for (const std::string &part : parts) all += part;
  return all;
}

// Calls with one type, reduction and root, over all sizes.
void sweep(const Job &job, Bench &bench, Report *report, Case one) {
  const Options &options = job.options;
  const Operation &operation = *options.operation;
  for (std::size_t size = options.min_bytes; size <= options.max_bytes; size = options.next_size(size)) {
    one.count = size / one.type.size / operation.largest_blocks(job.place.ranks);
    const std::size_t bytes = one.count * one.type.size * operation.largest_blocks(job.place.ranks);
    Line line{bytes, one.count, one.type.name, one.reduction.name, operation.has_root ? one.root : -1, {}, {}};
    for (const bool in_place : {false, true}) {
      if (in_place && !operation.has_in_place) continue;
      one.in_place = in_place;
      one.line += 1;
      job.watchdog.restart();
      const std::vector<Sample> samples = bench.measure(one);
      const Placement placement = summarise(samples, bytes, options);
      if (in_place)
        line.in_place = placement;
      else
        line.out_of_place = placement;
      if (report != nullptr) report->tally(samples, one);
    }
    if (report != nullptr) report->add(line);
  }
}

void sweep_all(const Job &job, Bench &bench, Report *report) {
  const Options &options = job.options;
  const bool all_roots = options.operation->has_root && options.root == ALL_RANKS;
  const int first = all_roots || !options.operation->has_root ? 0 : options.root;
  const int last = all_roots ? job.place.ranks - 1 : first;
  std::uint64_t line = 0;
  for (const Type &type : options.types) {
    for (const Reduction &reduction : options.reductions) {
      for (int root = first; root <= last; ++root) {
        sweep(job, bench, report, Case{type, reduction, root, 0, false, line});
        line += 1 << 20;
      }
    }
  }
}

// A thread's life: its ranks are made, measured and taken down.
void work(const Job &job, int thread, Devices devices, std::vector<ncclComm_t> comms) {
  const int own = job.options.ranks_per_thread;
  const int first_rank = job.place.first_rank + thread * own;
  if (comms.empty()) comms = make_communicators(devices, job.id, job.place.ranks, first_rank);
  Session session(job.options, first_rank, std::move(devices), comms);
  Report *report = thread == 0 ? job.report : nullptr;
  const std::string who = joined(job.crew.exchange(thread, session.describe()));
  if (report != nullptr) report->begin(who);
  Bench bench(job.options, job.place.ranks, thread, job.crew, session);
  sweep_all(job, bench, report);
  job.crew.exchange(thread, "");
}

// Makes all ranks of the process and lets the threads have them.
void run(const Job &job) {
  const Options &options = job.options;
  const int own = options.ranks_per_thread;
  Devices devices;
  for (int i = 0; i < options.threads * own; ++i)
    devices.push_back(std::make_unique<Device>(job.place.first_device + i, options.null_stream));
  std::vector<ncclComm_t> comms;
  if (!options.parallel_init) comms = make_communicators(devices, job.id, job.place.ranks, job.place.first_rank);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < options.threads; ++thread) {
    const auto first = static_cast<std::ptrdiff_t>(thread * own), last = first + own;
    Devices part(std::make_move_iterator(devices.begin() + first), std::make_move_iterator(devices.begin() + last));
    std::vector<ncclComm_t> theirs;
    if (!comms.empty()) theirs.assign(comms.begin() + first, comms.begin() + last);
    threads.emplace_back([&job, thread, part = std::move(part), theirs]() mutable {
      work(job, thread, std::move(part), theirs);
    });
  }
  for (std::thread &thread : threads) thread.join();
}

// Ranks that were asked for different things would wait for each other in vain.
void agree(Team &team, int argc, char **argv) {
  std::string mine;
  for (int at = 1; at < argc; ++at) mine += std::string(argv[at]) + '\0';
  const std::vector<std::string> all = team.exchange(mine);
  for (std::size_t process = 0; process < all.size(); ++process)
    if (all[process] != mine)
      fail("process " + std::to_string(process) + " was started with other arguments than process " +
           std::to_string(team.process()) + ": all must have the same");
}

void verify(const Options &options, int ranks) {
  if (options.operation->has_root && options.root >= ranks)
    fail("--root is " + std::to_string(options.root) + ", and the ranks are 0 to " + std::to_string(ranks - 1));
  if (options.operation->steps(ranks) == 0)
    fail(std::string(options.operation->program) + " needs 2, 4, 8, ... ranks, the corners of a cube; there are " +
         std::to_string(ranks));
}

}  // namespace

int main(int argc, char **argv) {
  const Options options = parse(argc, argv);
  Team team;
  agree(team, argc, argv);
  const Place place(team, options);
  verify(options, place.ranks);

  ncclUniqueId id{};
  if (team.process() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string words(reinterpret_cast<const char *>(&id), sizeof id);
  std::memcpy(&id, team.exchange(words)[0].data(), sizeof id);

  Crew crew(team, options.threads);
  Watchdog watchdog(options.timeout_seconds);
  Report report(options, place.ranks);
  run(Job{options, place, crew, id, team.process() == 0 ? &report : nullptr, watchdog});
  // All processes end alike.
  const bool is_well = team.process() != 0 || report.end();
  return team.exchange(is_well ? "1" : "0")[0] == "1" ? 0 : 1;
}
