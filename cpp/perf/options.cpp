#include "options.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>

#include "device.hpp"
#include "fail.hpp"

namespace perf {

namespace {

constexpr long long MOST = std::numeric_limits<int>::max();

// An argument that cannot be: what was given, and what would do.
[[noreturn]] void refuse(const std::string &option, const std::string &value, const std::string &wanted) {
  fail(option + " takes " + wanted + "; it was given `" + value + "` (-h lists all options)");
}

int number(const std::string &option, const std::string &text, long long least, long long most = MOST) {
  char *end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const bool bounded = most < MOST;
  if (text.empty() || *end != '\0' || value < least || value > most)
    refuse(option, text, "a number from " + std::to_string(least) + (bounded ? " to " + std::to_string(most) : " on"));
  return static_cast<int>(value);
}

bool flag(const std::string &option, const std::string &text) { return number(option, text, 0, 1) == 1; }

// 4096, 4K, 1.5M, 2G, with or without a B.
std::size_t size(const std::string &option, const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  const std::string units = "KMGT";
  if (!unit.empty() && unit != "B" && unit != "b") {
    const std::size_t power = units.find(static_cast<char>(unit[0] & ~0x20));
    if (power == std::string::npos) refuse(option, text, "bytes, or KiB, MiB or GiB with a K, M or G");
    value = std::ldexp(value, 10 * static_cast<int>(power + 1));
    unit.erase(0, 1);
  }
  const bool is_rest_known = unit.empty() || unit == "B" || unit == "b" || unit == "iB";
  if (end == text.c_str() || !is_rest_known || !(value >= 0) || value > 1e15)
    refuse(option, text, "bytes, or KiB, MiB or GiB with a K, M or G");
  return static_cast<std::size_t>(value);
}

// One row of a table by its name or its number there, or all rows.
template <class Row, std::size_t N>
std::vector<Row> rows(const std::string &option, const std::string &text, const Row (&table)[N]) {
  if (text == "all" || text == "-1") return std::vector<Row>(std::begin(table), std::end(table));
  std::string names;
  for (const Row &row : table) {
    if (text == row.name || text == std::to_string(&row - table)) return {row};
    names += std::string(row.name) + ", ";
  }
  refuse(option, text, "one of " + names + "or all");
}

double step_factor(const std::string &option, const std::string &text) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(value > 1) || value > 1e9) refuse(option, text, "a factor above 1");
  return value;
}

int root(const std::string &option, const std::string &text) {
  return text == "all" ? ALL_RANKS : number(option, text, ALL_RANKS);
}

int graph_launches(const std::string &option, const std::string &text) {
  const int launches = number(option, text, 0);
  if (launches > 0 && !CAN_CAPTURE)
    fail(option + " needs CUDA's streams, and this is the host build: leave it out, or use the CUDA build");
  return launches;
}

struct Option {
  char letter;  // or 0
  const char *name;
  const char *value;  // in the help; nothing where it takes none
  const char *meaning;
  std::function<void(Options &, const std::string &option, const std::string &text)> set;
};

const Option OPTIONS[] = {
    {'t', "nthreads", "N", "threads in each process [1]",
     [](Options &o, auto &option, auto &text) { o.threads = number(option, text, 1, 1024); }},
    {'g', "ngpus", "N", "ranks in each thread [1]",
     [](Options &o, auto &option, auto &text) { o.ranks_per_thread = number(option, text, 1, 1024); }},
    {'b', "minbytes", "SIZE", "first size; K, M and G are powers of 1024 [32M]",
     [](Options &o, auto &option, auto &text) { o.min_bytes = size(option, text); }},
    {'e', "maxbytes", "SIZE", "last size [32M]",
     [](Options &o, auto &option, auto &text) { o.max_bytes = size(option, text); }},
    {'i', "stepbytes", "SIZE", "what is added from size to size [1M]",
     [](Options &o, auto &option, auto &text) { o.step_bytes = size(option, text); }},
    {'f', "stepfactor", "F", "what sizes are multiplied by instead",
     [](Options &o, auto &option, auto &text) { o.step_factor = step_factor(option, text); }},
    {'n', "iters", "N", "timed iterations [20]",
     [](Options &o, auto &option, auto &text) { o.iterations = number(option, text, 1); }},
    {'w', "warmup_iters", "N", "iterations before them, of each size [1]",
     [](Options &o, auto &option, auto &text) { o.warm_up = number(option, text, 0); }},
    {'m', "agg_iters", "N", "operations in one group, in each iteration [1]",
     [](Options &o, auto &option, auto &text) { o.aggregated = number(option, text, 1, 4096); }},
    {'a', "average", "0-3", "time of rank 0, the mean, the least or the most of all ranks [1]",
     [](Options &o, auto &option, auto &text) { o.average = static_cast<Average>(number(option, text, 0, 3)); }},
    {'p', "parallel_init", "0|1", "whether each thread makes its own communicators [0]",
     [](Options &o, auto &option, auto &text) { o.parallel_init = flag(option, text); }},
    {'c', "check", "N", "runs whose every element is checked [1]",
     [](Options &o, auto &option, auto &text) { o.checks = number(option, text, 0); }},
    {'o', "op", "NAME", "sum, prod, max, min, avg, mulsum or all [sum]",
     [](Options &o, auto &option, auto &text) { o.reductions = rows(option, text, REDUCTIONS); }},
    {'d', "datatype", "NAME",
     "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3,\n"
     "                               f8e5m2 or all [float]",
     [](Options &o, auto &option, auto &text) { o.types = rows(option, text, TYPES); }},
    {'r', "root", "RANK", "the special rank of operations that have one, or all [0]",
     [](Options &o, auto &option, auto &text) { o.root = root(option, text); }},
    {'z', "blocking", "0|1", "whether to wait for the end of each iteration [0]",
     [](Options &o, auto &option, auto &text) { o.blocking = flag(option, text); }},
    {'y', "stream_null", "0|1", "whether to use the default stream [0]",
     [](Options &o, auto &option, auto &text) { o.null_stream = flag(option, text); }},
    {'T', "timeout", "SECONDS", "how long one line may take; 0 is for ever [0]",
     [](Options &o, auto &option, auto &text) { o.timeout_seconds = number(option, text, 0); }},
    {'G', "cudagraph", "N", "launches of the iterations captured as a graph, in the CUDA build [0]",
     [](Options &o, auto &option, auto &text) { o.graph_launches = graph_launches(option, text); }},
    {'C', "report_cputime", "0|1", "time how long calls take to return, not to end [0]",
     [](Options &o, auto &option, auto &text) { o.report_cpu_time = flag(option, text); }},
    {'R', "local_register", "0-2", "buffers registered with each communicator (1) or as windows of all ranks (2) [0]",
     [](Options &o, auto &option, auto &text) { o.registration = number(option, text, 0, 2); }},
    {'J', "output_file", "FILE", "write the results as JSON, too",
     [](Options &o, auto &, auto &text) { o.output_file = text; }},
    {0, "self-test", nullptr, "break a result, an input and a guard of each rank; fail unless all are noticed",
     [](Options &o, auto &, auto &) { o.self_test = true; }},
};

[[noreturn]] void help(const Operation &operation) {
  std::printf("%s [OPTIONS]\n\nTimes nccl%s on all ranks and checks every element (%s build).\n"
              "Ranks: processes * threads * ranks in each thread. Exit code 0 means that nothing was wrong.\n\n",
              operation.program, operation.name, BUILD);
  for (const Option &option : OPTIONS) {
    const std::string letter = option.letter != 0 ? std::string("-") + option.letter + "," : "   ";
    const std::string name = std::string("--") + option.name + (option.value ? std::string(" ") + option.value : "");
    std::printf("  %s %-24s %s\n", letter.c_str(), name.c_str(), option.meaning);
  }
  std::printf("  -h, %-24s this text\n", "--help");
  std::exit(0);
}

const Option *option_of(const std::string &argument) {
  for (const Option &option : OPTIONS) {
    const bool is_letter = option.letter != 0 && argument == std::string("-") + option.letter;
    if (is_letter || argument == std::string("--") + option.name) return &option;
  }
  return nullptr;
}

// Values may be further arguments, or stand behind `=` or, for letters, at once.
void parse_options(const std::vector<std::string> &arguments, Options &options) {
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    std::string argument = arguments[at];
    if (argument == "-h" || argument == "--help") help(*options.operation);
    std::string value;
    bool has_value = false;
    const std::size_t equals = argument.find('=');
    if (argument.rfind("--", 0) == 0 && equals != std::string::npos) {
      value = argument.substr(equals + 1);
      argument.erase(equals);
      has_value = true;
    } else if (argument.size() > 2 && argument[0] == '-' && argument[1] != '-') {
      value = argument.substr(2);
      argument.erase(2);
      has_value = true;
    }
    const Option *option = option_of(argument);
    if (option == nullptr) fail("there is no option `" + argument + "` (-h lists all options)");
    if (option->value == nullptr && has_value) fail(argument + " takes no value; it was given `" + value + "`");
    if (option->value != nullptr && !has_value) {
      if (++at == arguments.size()) fail(argument + " lacks its value, " + option->value);
      value = arguments[at];
    }
    option->set(options, argument, value);
  }
}

// What only all options together can tell.
void verify(const Options &o) {
  if (o.min_bytes > o.max_bytes)
    fail("--minbytes is " + std::to_string(o.min_bytes) + " and --maxbytes only " + std::to_string(o.max_bytes) +
         ": the first size must not be above the last");
  if (o.step_factor == 0 && o.step_bytes == 0 && o.min_bytes != o.max_bytes)
    fail("--stepbytes is 0: sizes would stay at --minbytes; give a step or --stepfactor");
  if (o.step_factor != 0 && o.min_bytes == 0 && o.max_bytes != 0)
    fail("--minbytes is 0, which --stepfactor cannot multiply: start from 1 or give --stepbytes");
  if (o.self_test && o.checks == 0) fail("--self-test is about the check, and --check 0 leaves it out");
  if (o.graph_launches > 0 && o.null_stream)
    fail("--cudagraph cannot capture the default stream: leave out --stream_null");
  if (o.graph_launches > 0 && o.blocking)
    fail("--cudagraph captures calls, in which nobody can wait: leave out --blocking");
}

}  // namespace

std::size_t Options::next_size(std::size_t bytes) const {
  if (step_factor == 0) return bytes + std::max<std::size_t>(step_bytes, 1);
  return std::max(bytes + 1, static_cast<std::size_t>(static_cast<double>(bytes) * step_factor));
}

Options parse(int argc, char **argv) {
  Options options;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  options.operation = operation_of(argv[0]);
  if (options.operation == nullptr) {
    const std::string program = arguments.empty() ? "" : arguments[0];
    options.operation = operation_of(program);
    if (options.operation == nullptr)
      fail((program.empty() ? "name a program first" : "there is no program `" + program + "`") + ": one of " +
           all_programs());
    arguments.erase(arguments.begin());
  }
  options.types = rows("--datatype", "float", TYPES);
  parse_options(arguments, options);
  if (!options.operation->reduces()) options.reductions = {NONE};
  verify(options);
  return options;
}

}  // namespace perf
