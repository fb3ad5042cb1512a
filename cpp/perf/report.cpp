#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fail.hpp"

namespace perf {

namespace {

std::string text(const char *format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

// As many digits as a column has room for.
std::string microseconds(double value) {
  return text(value >= 10000 ? "%.0f" : value >= 100 ? "%.1f" : "%.2f", value);
}

std::string bandwidth(double value) { return text("%.2f", value); }

std::string version() {
  int code = 0;
  check(ncclGetVersion(&code), "ncclGetVersion");
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

std::string size_of(std::size_t bytes) {
  static constexpr const char *UNITS[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < sizeof UNITS / sizeof *UNITS) bytes /= 1024, ++unit;
  return std::to_string(bytes) + UNITS[unit];
}

std::string steps(const Options &options) {
  return options.step_factor != 0 ? "times " + text("%g", options.step_factor) : "plus " + size_of(options.step_bytes);
}

void print_placement(const std::optional<Placement> &placement) {
  const auto column = [](int width, const std::string &words) { std::printf("%*s", width, words.c_str()); };
  const std::string none = "N/A";
  column(10, placement ? microseconds(placement->time_us) : none);
  column(10, !placement ? none : placement->model_us ? microseconds(*placement->model_us) : "-");
  column(8, placement ? bandwidth(placement->algorithm_bandwidth) : none);
  column(8, placement ? bandwidth(placement->bus_bandwidth) : none);
  column(8, placement && placement->wrong ? std::to_string(*placement->wrong) : none);
}

void print_header() {
  const auto half = [](const char *time, const char *model, const char *alg, const char *bus, const char *wrong) {
    std::printf("%10s%10s%8s%8s%8s", time, model, alg, bus, wrong);
  };
  std::printf("#\n#%56s%31s%44s\n", "", "out-of-place", "in-place");
  std::printf("#%12s%14s%10s%8s%8s  ", "size", "count", "type", "redop", "root");
  half("time", "model", "algbw", "busbw", "#wrong");
  half("time", "model", "algbw", "busbw", "#wrong");
  std::printf("\n#%12s%14s%10s%8s%8s  ", "(B)", "(elements)", "", "", "");
  half("(us)", "(us)", "(GB/s)", "(GB/s)", "");
  half("(us)", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
}

double average(const std::vector<Sample> &samples, Average which, double (*value)(const Sample &)) {
  double sum = 0, least = value(samples[0]), most = least;
  for (const Sample &sample : samples) {
    sum += value(sample);
    least = std::min(least, value(sample));
    most = std::max(most, value(sample));
  }
  switch (which) {
    case Average::Rank0: return value(samples[0]);
    case Average::Least: return least;
    case Average::Most: return most;
    default: return sum / static_cast<double>(samples.size());
  }
}

double rate(std::size_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

double mean(const std::vector<double> &values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// ---- JSON ----------------------------------------------------------------------------------------------------

std::string quoted(const std::string &words) {
  std::string json = "\"";
  for (const char c : words) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + "\"";
}

std::string json(double value) { return text("%.6g", value); }
std::string json(const std::optional<double> &value) { return value ? json(*value) : "null"; }

std::string json(const std::optional<Placement> &placement) {
  if (!placement) return "null";
  const Placement &p = *placement;
  return "{\"time_us\": " + json(p.time_us) + ", \"model_us\": " + json(p.model_us) +
         ", \"algbw_gb_s\": " + json(p.algorithm_bandwidth) + ", \"busbw_gb_s\": " + json(p.bus_bandwidth) +
         ", \"model_busbw_gb_s\": " + json(p.modelled_bus_bandwidth) +
         ", \"wrong\": " + (p.wrong ? std::to_string(*p.wrong) : "null") + "}";
}

std::string json(const Line &line) {
  return "{\"size_bytes\": " + std::to_string(line.bytes) + ", \"count\": " + std::to_string(line.count) +
         ", \"type\": " + quoted(line.type) + ", \"redop\": " + quoted(line.reduction) +
         ", \"root\": " + std::to_string(line.root) + ", \"out_of_place\": " + json(std::optional(line.out_of_place)) +
         ", \"in_place\": " + json(line.in_place) + "}";
}

}  // namespace

Placement summarise(const std::vector<Sample> &samples, std::size_t bytes, const Options &options) {
  const double factor = options.operation->bus_factor(static_cast<double>(samples.size()));
  const double seconds = average(samples, options.average, [](const Sample &sample) { return sample.seconds; });
  Placement placement;
  placement.time_us = seconds * 1e6;
  placement.algorithm_bandwidth = rate(bytes, seconds);
  placement.bus_bandwidth = placement.algorithm_bandwidth * factor;
  if (std::all_of(samples.begin(), samples.end(), [](const Sample &sample) { return sample.is_modelled; })) {
    const double modelled =
        average(samples, options.average, [](const Sample &sample) { return sample.modelled_seconds; });
    placement.model_us = modelled * 1e6;
    placement.modelled_bus_bandwidth = rate(bytes, modelled) * factor;
  }
  if (options.checks == 0) return placement;
  placement.wrong = 0;
  for (const Sample &sample : samples) *placement.wrong += sample.wrong + sample.changed;
  return placement;
}

Report::Report(const Options &options, int ranks) : options_(options), ranks_(ranks) {}

Report::~Report() {
  if (json_ != nullptr) std::fclose(json_);
}

void Report::begin(const std::string &who) {
  const Options &o = options_;
  who_ = who;
  if (!o.output_file.empty()) {
    json_ = std::fopen(o.output_file.c_str(), "w");
    if (json_ == nullptr) fail("cannot write --output_file " + o.output_file + ": " + std::strerror(errno));
  }
  std::printf("# %s: nccl%s of NCCL %s, %s build\n", o.operation->program, o.operation->name, version().c_str(), BUILD);
  std::printf("# %d ranks, %d threads a process, %d ranks a thread; %s to %s, %s\n", ranks_, o.threads,
              o.ranks_per_thread, size_of(o.min_bytes).c_str(), size_of(o.max_bytes).c_str(), steps(o).c_str());
  std::printf("# warm-up %d, iterations %d, operations in each %d, checked runs %d, graph launches %d%s\n#\n%s",
              o.warm_up, o.iterations, o.aggregated, o.checks, o.graph_launches, o.self_test ? ", SELF TEST" : "",
              who.c_str());
  print_header();
  std::fflush(stdout);
}

void Report::add(const Line &line) {
  std::printf(" %12zu%14zu%10s%8s%8d  ", line.bytes, line.count, line.type.c_str(), line.reduction.c_str(), line.root);
  print_placement(line.out_of_place);
  print_placement(line.in_place);
  std::printf("\n");
  std::fflush(stdout);
  lines_.push_back(line);
}

void Report::tally(const std::vector<Sample> &samples, const Case &one) {
  for (const Sample &sample : samples) {
    wrong_ += sample.wrong + sample.changed;
    outside_ += sample.outside;
    const auto broke = [this](std::uint64_t found) {
      broken_ += 1;
      noticed_ += found > 0 ? 1 : 0;
    };
    broke(sample.outside);
    if (one.count > 0) broke(sample.wrong);
    if (one.count > 0 && !one.in_place) broke(sample.changed);
  }
}

bool Report::end() {
  std::vector<double> bus, modelled_bus;
  for (const Line &line : lines_) {
    const auto add = [&](const Placement &placement) {
      bus.push_back(placement.bus_bandwidth);
      if (placement.modelled_bus_bandwidth) modelled_bus.push_back(*placement.modelled_bus_bandwidth);
    };
    add(line.out_of_place);
    if (line.in_place) add(*line.in_place);
  }
  const std::optional<double> modelled = modelled_bus.empty() ? std::nullopt : std::optional(mean(modelled_bus));
  const char *verdict = options_.checks == 0 ? "not checked" : outside_ == 0 ? "OK" : "FAILED";
  std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(outside_), verdict);
  std::printf("# Avg bus bandwidth    : %g\n", mean(bus));
  if (modelled) std::printf("# Avg modelled bus bw  : %g\n", *modelled);
  if (options_.self_test)
    std::printf("# Self test            : %llu of %llu breaks noticed %s\n", static_cast<unsigned long long>(noticed_),
                static_cast<unsigned long long>(broken_), noticed_ == broken_ ? "OK" : "FAILED");
  std::printf("#\n");
  std::fflush(stdout);
  if (json_ != nullptr) write_json(mean(bus), modelled);
  return options_.self_test ? noticed_ == broken_ && broken_ > 0 : wrong_ == 0 && outside_ == 0;
}

void Report::write_json(double average, std::optional<double> modelled) const {
  std::string lines;
  for (const Line &line : lines_) lines += (lines.empty() ? "\n    " : ",\n    ") + json(line);
  std::string who;
  for (std::size_t at = 0; at < who_.size();) {
    const std::size_t end = std::min(who_.find('\n', at), who_.size());
    who += (who.empty() ? "\n    " : ",\n    ") + quoted(who_.substr(at + 3, end - at - 3));
    at = end + 1;
  }
  std::fprintf(json_,
               "{\n  \"program\": %s,\n  \"build\": %s,\n  \"nccl\": %s,\n  \"ranks\": %d,\n  \"devices\": [%s\n  ],\n"
               "  \"iterations\": %d,\n  \"results\": [%s\n  ],\n  \"wrong\": %llu,\n  \"out_of_bounds\": %llu,\n"
               "  \"average_busbw_gb_s\": %s,\n  \"average_model_busbw_gb_s\": %s\n}\n",
               quoted(options_.operation->program).c_str(), quoted(BUILD).c_str(), quoted(version()).c_str(), ranks_,
               who.c_str(), options_.iterations, lines.c_str(), static_cast<unsigned long long>(wrong_),
               static_cast<unsigned long long>(outside_), json(average).c_str(), json(modelled).c_str());
  if (std::fflush(json_) != 0) fail("cannot write all of --output_file " + options_.output_file);
}

}  // namespace perf
