#include "bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "fail.hpp"

namespace perf {

namespace {

using Clock = std::chrono::steady_clock;

// What is in guards, and in receive buffers before the call.
constexpr unsigned char GARBAGE = 0xa5;

// In place of a rank: memory that must be as it was.
constexpr int NOBODY = -2;

// One operator for each rank; those of mulsum are made here and go with this.
class Operators {
 public:
  Operators(const Case &one, const std::vector<std::unique_ptr<Rank>> &ranks)
      : made_(one.reduction.combine == Combine::MulSum), ranks_(ranks) {
    for (const auto &rank : ranks) {
      codes_.push_back(one.reduction.code);
      if (!made_) continue;
      with_type(one.type.code, [&](auto implementation) {
        using T = decltype(implementation);
        auto factor = T::encode(static_cast<typename T::Value>(scalar(rank->number)));
        check(ncclRedOpCreatePreMulSum(&codes_.back(), &factor, one.type.code, ncclScalarHostImmediate, rank->comm),
              "ncclRedOpCreatePreMulSum");
      });
    }
  }
  ~Operators() {
    if (!made_) return;
    for (std::size_t i = 0; i < codes_.size(); ++i)
      check(ncclRedOpDestroy(codes_[i], ranks_[i]->comm), "ncclRedOpDestroy");
  }
  Operators(const Operators &) = delete;
  Operators &operator=(const Operators &) = delete;
  const std::vector<ncclRedOp_t> &codes() const { return codes_; }

 private:
  bool made_;
  const std::vector<std::unique_ptr<Rank>> &ranks_;
  std::vector<ncclRedOp_t> codes_;
};

}  // namespace

// Where one rank's bytes are in one case.
struct Bench::Buffers {
  unsigned char *send, *recv;
  std::size_t block, send_bytes, recv_bytes;
  // The memory that the case may use: in place, `whole` is both buffers and there is no second one.
  unsigned char *whole;
  std::size_t whole_bytes;
};

// In place, the smaller buffer is a part of the larger: the rank's own block.
Bench::Buffers Bench::buffers(const Rank &rank, const Case &one) const {
  Buffers b{};
  b.block = one.count * one.type.size;
  b.send_bytes = b.block * operation_.send_blocks(world_);
  b.recv_bytes = b.block * operation_.recv_blocks(world_);
  b.send = rank.first.data();
  b.recv = b.whole = rank.second.data();
  b.whole_bytes = b.recv_bytes;
  if (!one.in_place) return b;
  const std::size_t own = static_cast<std::size_t>(rank.number) * b.block;
  b.send = b.whole + (b.recv_bytes > b.send_bytes ? own : 0);
  b.recv = b.whole + (b.send_bytes > b.recv_bytes ? own : 0);
  b.whole_bytes = std::max(b.send_bytes, b.recv_bytes);
  return b;
}

std::vector<Span> Bench::expected(const Rank &rank, const Case &one) const {
  const Buffers b = buffers(rank, one);
  const auto own = static_cast<std::size_t>(rank.number) * one.count;
  if (operation_.only_root && rank.number != one.root) {
    if (one.in_place) return {{b.send, one.count, rank.number, 0}};
    return {{b.recv, b.recv_bytes / one.type.size, NOBODY, 0}};
  }
  std::vector<Span> each;
  switch (operation_.result) {
    case Result::Combined: return {{b.recv, one.count, ALL_RANKS, 0}};
    case Result::OwnCombined: return {{b.recv, one.count, ALL_RANKS, own}};
    case Result::OfRoot: return {{b.recv, one.count, one.root, 0}};
    case Result::OwnOfRoot: return {{b.recv, one.count, one.root, own}};
    case Result::OfPrevious: return {{b.recv, one.count, (rank.number + world_ - 1) % world_, 0}};
    case Result::OfEach:
    case Result::OwnOfEach:
      for (int source = 0; source < world_; ++source)
        each.push_back({b.recv + static_cast<std::size_t>(source) * b.block, one.count, source,
                        operation_.result == Result::OfEach ? 0 : own});
  }
  return each;
}

void Bench::prepare(const Rank &rank, const Case &one, const Recipe &recipe) const {
  const Buffers b = buffers(rank, one);
  const auto surround = [&](unsigned char *data, std::size_t bytes) {
    rank.device->set_bytes(data - Buffer::GUARD, GARBAGE, bytes + 2 * Buffer::GUARD);
  };
  surround(b.whole, b.whole_bytes);
  if (!one.in_place) surround(b.send, b.send_bytes);
  rank.device->fill({b.send, b.send_bytes / one.type.size, rank.number, 0}, one.type.code, recipe);
}

void Bench::verify(const Rank &rank, const Case &one, const Recipe &recipe, Sample &sample) const {
  const Buffers b = buffers(rank, one);
  Device &device = *rank.device;
  for (const Span &span : expected(rank, one)) {
    const std::size_t size = one.type.size;
    if (span.source == NOBODY)
      sample.wrong += (device.count_other(span.at, GARBAGE, span.count * size) + size - 1) / size;
    else
      sample.wrong += device.count_wrong(span, one.type.code, recipe);
  }
  const auto around = [&](const unsigned char *data, std::size_t bytes) {
    return device.count_other(data - Buffer::GUARD, GARBAGE, Buffer::GUARD) +
           device.count_other(data + bytes, GARBAGE, Buffer::GUARD);
  };
  sample.outside += around(b.whole, b.whole_bytes);
  if (one.in_place) return;
  sample.outside += around(b.send, b.send_bytes);
  sample.changed += device.count_wrong({b.send, b.send_bytes / one.type.size, rank.number, 0}, one.type.code, recipe);
}

// What a broken library would do: one element of the result, one of the input, one byte outside.
void Bench::sabotage(const Rank &rank, const Case &one) const {
  const Buffers b = buffers(rank, one);
  rank.device->invert(b.whole + b.whole_bytes, 1);
  if (one.count == 0) return;
  const std::size_t middle = one.count / 2 * one.type.size;
  rank.device->invert(static_cast<unsigned char *>(expected(rank, one).back().at) + middle, one.type.size);
  if (!one.in_place) rank.device->invert(b.send + middle, one.type.size);
}

void Bench::group(const Case &one, const std::vector<ncclRedOp_t> &ops, int step, int times) const {
  const auto &ranks = session_.ranks();
  const bool several = ranks.size() > 1 || times > 1;
  const std::string name = std::string("nccl") + operation_.name;
  if (several) check(ncclGroupStart(), "ncclGroupStart");
  for (int at = 0; at < times; ++at) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Rank &rank = *ranks[i];
      const Buffers b = buffers(rank, one);
      rank.device->use();
      const Call call{b.send, b.recv, one.count, one.type.code, ops[i], one.root, rank.number, world_,
                      rank.comm, rank.device->stream()};
      check(operation_.issue(call, step), "rank " + std::to_string(rank.number) + ": " + name);
    }
  }
  if (several) check(ncclGroupEnd(), "rank " + std::to_string(ranks[0]->number) + ": ncclGroupEnd of " + name);
}

// Steps that need each other's data cannot share a group.
void Bench::submit(const Case &one, const std::vector<ncclRedOp_t> &ops, int times) const {
  const int steps = operation_.steps(world_);
  if (steps == 1) return group(one, ops, 0, times);
  for (int at = 0; at < times; ++at)
    for (int step = 0; step < steps; ++step) group(one, ops, step, 1);
}

void Bench::iterate(const Case &one, const std::vector<ncclRedOp_t> &ops, int iterations) const {
  for (int at = 0; at < iterations; ++at) {
    submit(one, ops, options_.aggregated);
    if (options_.blocking) session_.synchronise();
  }
}

void Bench::time(const Case &one, const std::vector<ncclRedOp_t> &ops, std::vector<Sample> &samples) const {
  const auto &ranks = session_.ranks();
  iterate(one, ops, options_.warm_up);
  session_.synchronise();
  std::vector<std::unique_ptr<Graph>> graphs;
  if (options_.graph_launches > 0) {
    begin_capture(session_.devices());
    iterate(one, ops, options_.iterations);
    graphs = end_capture(session_.devices());
  }
  crew_.exchange(thread_, "");

  for (const auto &rank : ranks) rank->device->start_model(rank->comm);
  const auto started = Clock::now();
  if (graphs.empty()) iterate(one, ops, options_.iterations);
  for (int launch = 0; launch < options_.graph_launches; ++launch)
    for (const auto &graph : graphs) graph->launch();
  if (!options_.report_cpu_time) session_.synchronise();
  const std::chrono::duration<double> took = Clock::now() - started;

  const double operations = 1.0 * options_.iterations * options_.aggregated * std::max(options_.graph_launches, 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::optional<double> modelled = ranks[i]->device->stop_model(ranks[i]->comm);
    samples[i].seconds = took.count() / operations;
    samples[i].is_modelled = modelled.has_value();
    samples[i].modelled_seconds = modelled.value_or(0) / operations;
  }
  session_.synchronise();
}

void Bench::examine(const Case &one, const std::vector<ncclRedOp_t> &ops, std::vector<Sample> &samples) const {
  const auto &ranks = session_.ranks();
  for (int run = 0; run < options_.checks; ++run) {
    const std::uint64_t seed = scramble(one.line << 32 | static_cast<std::uint64_t>(run));
    const Recipe recipe{one.reduction.combine, world_, seed};
    for (const auto &rank : ranks) prepare(*rank, one, recipe);
    session_.synchronise();
    // A rank's buffers are ready before anybody can write into them.
    crew_.exchange(thread_, "");
    submit(one, ops, 1);
    session_.synchronise();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (options_.self_test) sabotage(*ranks[i], one);
      verify(*ranks[i], one, recipe, samples[i]);
    }
  }
}

std::vector<Sample> Bench::measure(const Case &one) {
  std::vector<Sample> samples(session_.ranks().size(), Sample{});
  {
    const Operators operators(one, session_.ranks());
    // Numbers to begin with: what lies in fresh memory may be slow to compute with.
    const Recipe recipe{one.reduction.combine, world_, one.line};
    for (const auto &rank : session_.ranks()) prepare(*rank, one, recipe);
    time(one, operators.codes(), samples);
    examine(one, operators.codes(), samples);
  }
  std::string mine(reinterpret_cast<const char *>(samples.data()), samples.size() * sizeof(Sample));
  std::vector<Sample> all;
  for (const std::string &thread : crew_.exchange(thread_, mine)) {
    const std::size_t before = all.size();
    all.resize(before + thread.size() / sizeof(Sample));
    std::memcpy(all.data() + before, thread.data(), thread.size());
  }
  return all;
}

}  // namespace perf
