#include "team.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fail.hpp"

namespace perf {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds TO_MEET{60};
// The others may be filling large buffers meanwhile.
constexpr int TO_ANSWER_SECONDS = 600;
// No list of words is larger; it bounds what a stranger at the port can make us allocate.
constexpr std::uint32_t LARGEST = 1 << 26;
// What peers say first: a stranger who connects says something else.
constexpr std::uint32_t GREETING = 0x66677031;

struct Hello {
  std::uint32_t greeting, processes, process;
};

int number_from_environment(const char *name, int least, int most) {
  const char *text = std::getenv(name);
  char *end = nullptr;
  const long number = text != nullptr ? std::strtol(text, &end, 10) : -1;
  if (text == nullptr || end == text || *end != '\0' || number < least || number > most)
    fail(std::string(name) + " must be a number from " + std::to_string(least) + " to " + std::to_string(most) +
         "; it is " + (text != nullptr ? "`" + std::string(text) + "`" : "unset"));
  return static_cast<int>(number);
}

bool send_all(int socket, const void *data, std::size_t bytes) {
  const auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void *data, std::size_t bytes) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_words(int socket, const std::string &words) {
  const auto length = static_cast<std::uint32_t>(words.size());
  return send_all(socket, &length, sizeof length) && send_all(socket, words.data(), words.size());
}

bool receive_words(int socket, std::string &words) {
  std::uint32_t length = 0;
  if (!receive_all(socket, &length, sizeof length) || length > LARGEST) return false;
  words.resize(length);
  return receive_all(socket, words.data(), length);
}

void set_up(int socket, int patience_seconds) {
  const timeval patience{patience_seconds, 0};
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

[[noreturn]] void lost(int process) {
  fail("process " + std::to_string(process) + " is gone or has said nothing for " +
       std::to_string(TO_ANSWER_SECONDS / 60) + " minutes: its own output says why");
}

}  // namespace

Team::Team() {
  if (std::getenv("RANK") == nullptr && std::getenv("WORLD_SIZE") == nullptr) return;
  processes_ = number_from_environment("WORLD_SIZE", 1, 65536);
  process_ = number_from_environment("RANK", 0, processes_ - 1);
  if (processes_ == 1) return;
  const char *address = std::getenv("MASTER_ADDR");
  if (address == nullptr)
    fail("WORLD_SIZE is " + std::to_string(processes_) +
         " and MASTER_ADDR unset: start the ranks with `fakegpu run`, or set MASTER_ADDR and MASTER_PORT");
  const int port = number_from_environment("MASTER_PORT", 1, 65535);
  if (process_ == 0)
    accept_others(port);
  else
    connect_to_first(address, port);
}

Team::~Team() {
  for (const int socket : sockets_)
    if (socket >= 0) ::close(socket);
}

void Team::accept_others(int port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // At MASTER_ADDR only, where that is ours; behind a forwarding host it is not.
  in_addr own{};
  if (inet_pton(AF_INET, std::getenv("MASTER_ADDR"), &own) != 1) own.s_addr = htonl(INADDR_ANY);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr = own;
  if (::bind(listener, reinterpret_cast<sockaddr *>(&at), sizeof at) != 0 || ::listen(listener, processes_) != 0)
    fail("process 0 cannot listen at MASTER_PORT " + std::to_string(port) + ": " + std::strerror(errno));
  sockets_.assign(static_cast<std::size_t>(processes_ - 1), -1);
  const auto deadline = Clock::now() + TO_MEET;
  for (int met = 1; met < processes_;) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now()).count();
    if (left <= 0)
      fail("process 0 waited a minute at MASTER_PORT " + std::to_string(port) + " and met " +
           std::to_string(met - 1) + " of " + std::to_string(processes_ - 1) + " others");
    set_up(listener, static_cast<int>(left));
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    set_up(socket, static_cast<int>(left));
    Hello hello{};
    const bool is_peer = receive_all(socket, &hello, sizeof hello) && hello.greeting == GREETING &&
                         hello.processes == static_cast<std::uint32_t>(processes_) && hello.process > 0 &&
                         hello.process < hello.processes && sockets_[hello.process - 1] < 0;
    if (!is_peer) {
      ::close(socket);
      continue;
    }
    set_up(socket, TO_ANSWER_SECONDS);
    sockets_[hello.process - 1] = socket;
    ++met;
  }
  ::close(listener);
}

void Team::connect_to_first(const std::string &address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    fail("MASTER_ADDR `" + address + "` is no address that can be found");
  const auto deadline = Clock::now() + TO_MEET;
  const Hello hello{GREETING, static_cast<std::uint32_t>(processes_), static_cast<std::uint32_t>(process_)};
  for (;;) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_up(socket, TO_ANSWER_SECONDS);
    if (::connect(socket, found->ai_addr, found->ai_addrlen) == 0 && send_all(socket, &hello, sizeof hello)) {
      sockets_ = {socket};
      break;
    }
    ::close(socket);
    if (Clock::now() > deadline)
      fail("process " + std::to_string(process_) + " waited a minute for process 0 at " + address + ":" +
           std::to_string(port));
    // Process 0 may not have started yet.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  freeaddrinfo(found);
}

std::vector<std::string> Team::exchange(const std::string &mine) {
  std::vector<std::string> all(static_cast<std::size_t>(processes_));
  if (process_ == 0) {
    all[0] = mine;
    for (std::size_t other = 1; other < all.size(); ++other)
      if (!receive_words(sockets_[other - 1], all[other])) lost(static_cast<int>(other));
    for (std::size_t other = 1; other < all.size(); ++other)
      for (const std::string &words : all)
        if (!send_words(sockets_[other - 1], words)) lost(static_cast<int>(other));
  } else {
    if (!send_words(sockets_[0], mine)) lost(0);
    for (std::string &words : all)
      if (!receive_words(sockets_[0], words)) lost(0);
  }
  return all;
}

Crew::Crew(Team &team, int threads) : team_(team), given_(static_cast<std::size_t>(threads)) {}

std::vector<std::string> Crew::exchange(int thread, const std::string &mine) {
  std::unique_lock lock(mutex_);
  given_[static_cast<std::size_t>(thread)] = mine;
  const std::size_t round = round_;
  if (++here_ < given_.size()) {
    all_here_.wait(lock, [&] { return round_ != round; });
    return told_;
  }
  // The last one here speaks for the process; nobody can enter the next round before it has.
  std::string packed;
  for (const std::string &words : given_) {
    const auto length = static_cast<std::uint32_t>(words.size());
    packed.append(reinterpret_cast<const char *>(&length), sizeof length);
    packed += words;
  }
  std::vector<std::string> told;
  for (const std::string &process : team_.exchange(packed)) {
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= process.size();) {
      std::uint32_t length = 0;
      std::memcpy(&length, process.data() + at, sizeof length);
      told.push_back(process.substr(at + sizeof length, length));
      at += sizeof length + told.back().size();
    }
  }
  told_ = std::move(told);
  here_ = 0;
  ++round_;
  all_here_.notify_all();
  return told_;
}

}  // namespace perf
