// Every collective, element type and operator, checked bit for bit against arithmetic of its own.
//
//   collectives [--dir FOLDER] [--quick] [--only NAME] [--dtype NAME] [--sizes BYTES,...]
//   collectives --loop N [--op NAME] [--bytes B]     latency and bandwidth of one float sum
//   collectives --mismatch op|count|dtype|root       rank 1 deviates: every rank must be refused
//   collectives --missing                            the last rank never calls: the others must be told
//   collectives --die RANK@N                         a rank is killed before its Nth call: likewise
//   collectives --until-failure                      call until another rank's death is reported
//
// RANK and WORLD_SIZE say who this is; FOLDER or $COLLECTIVES_DIR is a fresh folder that all ranks share.
// Exit status: 0 as promised, 1 with a sentence otherwise.

#include "cases.hpp"
#include "trouble.hpp"

namespace {

struct Options {
  std::string folder, only, dtype, mismatch, victim;
  std::vector<std::size_t> sizes = {1, 7'777, 1 << 20};
  std::size_t bytes = 1 << 20;
  int loops = 0;
  bool missing = false, until_failure = false;
};

std::size_t number(const std::string &text) {
  char *end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || text[0] == '-' || value > (1ull << 34))
    demo::fail("`" + text + "` is not a number of at most 16 GiB");
  return value;
}

std::vector<std::size_t> numbers(const std::string &text) {
  std::vector<std::size_t> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    values.push_back(number(text.substr(at, end - at)));
    at = end + 1;
  }
  return values;
}

Options parse(int argc, char **argv) {
  Options options;
  for (int at = 1; at < argc; ++at) {
    const std::string name = argv[at];
    if (name == "--quick") {
      options.sizes = {1, 7'777};
      continue;
    }
    if (name == "--missing") {
      options.missing = true;
      continue;
    }
    if (name == "--until-failure") {
      options.until_failure = true;
      continue;
    }
    if (at + 1 == argc) demo::fail("`" + name + "` is unknown or lacks its value");
    const std::string value = argv[++at];
    if (name == "--dir") options.folder = value;
    else if (name == "--only" || name == "--op") options.only = value;
    else if (name == "--dtype") options.dtype = value;
    else if (name == "--sizes") options.sizes = numbers(value);
    else if (name == "--bytes") options.bytes = number(value);
    else if (name == "--loop") options.loops = static_cast<int>(number(value));
    else if (name == "--mismatch") options.mismatch = value;
    else if (name == "--die") options.victim = value;
    else demo::fail("`" + name + "` is unknown");
  }
  return options;
}

// What one collective has been through; the table's row.
struct Tally {
  std::uint64_t cases = 0;
  std::uint64_t bytes = 0;
};

// Ranks that got this far, asked of the library itself: a wrong rank has already left.
std::uint64_t ranks_still_right(const demo::Place &place, ncclComm_t comm) {
  std::uint64_t right = 1;
  const ncclResult_t result = ncclAllReduce(&right, &right, 1, ncclUint64, ncclSum, comm, nullptr);
  demo::check(result, place.name() + ": the final count");
  return right;
}

int check_everything(const demo::Place &place, ncclComm_t comm, const Options &options) {
  // By element type, so that inputs and references are computed once; by collective, so that people can read it.
  std::map<Collective, Tally> tallies;
  for (const DType &dtype : DTYPES) {
    if (!options.dtype.empty() && options.dtype != dtype.name) continue;
    const Checker checker(place, comm, dtype, options.sizes);
    for (Collective collective : COLLECTIVES) {
      if (!options.only.empty() && options.only != name(collective)) continue;
      for (const Case &one : cases(collective, dtype, place.ranks, options.sizes)) {
        checker.run(one);
        tallies[collective].cases += 1;
        tallies[collective].bytes += result_bytes(one, place.ranks);
      }
    }
  }
  if (tallies.empty()) demo::fail("nothing to check: no collective and element type of that name");
  const std::uint64_t right = ranks_still_right(place, comm);
  if (place.rank != 0) return 0;
  std::printf("%-15s | %6s | %7s | %12s | %s\n", "collective", "cases", "calls", "result bytes", "correct");
  for (const auto &[collective, tally] : tallies) {
    const auto ranks = static_cast<std::uint64_t>(place.ranks);
    std::printf("%-15s | %6llu | %7llu | %12llu | %llu of %llu\n", name(collective),
                static_cast<unsigned long long>(tally.cases), static_cast<unsigned long long>(tally.cases * ranks),
                static_cast<unsigned long long>(tally.bytes), static_cast<unsigned long long>(tally.cases * right),
                static_cast<unsigned long long>(tally.cases * ranks));
  }
  return 0;
}

int measure(const demo::Place &place, ncclComm_t comm, const Options &options) {
  const Collective collective = options.only.empty() ? Collective::AllReduce : collective_named(options.only);
  const DType &dtype = dtype_named("float32");
  const std::size_t count = count_for(options.bytes, collective, dtype, place.ranks);
  const Case one{collective, &dtype, reference::Op::Sum, count, 0, false};
  std::vector<std::uint32_t> send(one.count * send_blocks(collective, place.ranks));
  std::vector<std::uint32_t> recv(one.count * recv_blocks(collective, place.ranks));
  std::vector<double> microseconds;
  constexpr int WARM_UP = 10;
  for (int at = -WARM_UP; at < options.loops; ++at) {
    const auto start = demo::Clock::now();
    demo::check(call(one, send.data(), recv.data(), ncclSum, comm), place.name() + ": " + name(collective));
    if (at >= 0) microseconds.push_back(demo::milliseconds_since(start) * 1e3);
  }
  if (place.rank != 0 || microseconds.empty()) return 0;
  std::sort(microseconds.begin(), microseconds.end());
  const double median = microseconds[microseconds.size() / 2];
  const double p99 = microseconds[std::min(microseconds.size() - 1, microseconds.size() * 99 / 100)];
  const std::size_t bytes = 4 * std::max(send.size(), recv.size());
  std::printf("%s | %zu bytes | %zu calls | median %.1f us | p99 %.1f us | algbw %.3f GB/s\n", name(collective),
              bytes, microseconds.size(), median, p99, static_cast<double>(bytes) / median / 1e3);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  const Options options = parse(argc, argv);
  const demo::Place place = demo::place(options.folder);
  const ncclComm_t comm = demo::join(place);
  // The troubled communicators are given up, not taken down in order.
  if (!options.mismatch.empty()) return trouble::mismatch(place, comm, options.mismatch);
  if (options.missing) return trouble::missing(place, comm);
  if (!options.victim.empty()) return trouble::death(place, comm, options.victim);
  if (options.until_failure) return trouble::until_failure(place, comm);
  const int status = options.loops > 0 ? measure(place, comm, options) : check_everything(place, comm, options);
  demo::check(ncclCommDestroy(comm), place.name() + ": ncclCommDestroy");
  return status;
}
