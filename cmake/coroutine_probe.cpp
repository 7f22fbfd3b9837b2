// SPDX-License-Identifier: Apache-2.0
//
// Prints which known coroutine bugs the compiler has, or "none". g++ 12.2 has all five, the last one from -O2
// on.
#include <coroutine>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <utility>

namespace {

struct Task {
  struct promise_type {
    Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };

  explicit Task(std::coroutine_handle<promise_type> handle) : frame(handle) {}
  Task(Task&& other) noexcept : frame(std::exchange(other.frame, nullptr)) {}
  ~Task() {
    if (frame) frame.destroy();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) {
    frame.resume();  // nothing here suspends again
    return false;
  }
  void await_resume() const noexcept {}

  std::coroutine_handle<promise_type> frame;
};

template <class T>
struct Value {
  T value;
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  T await_resume() const noexcept { return value; }
};

int balance = 0;  // constructions minus destructions
struct Counted {
  Counted() { ++balance; }
  Counted(const Counted&) { ++balance; }
  ~Counted() { --balance; }
};
struct Aggregate {
  Counted counted;
  int number = 0;
};

bool body_ran = false;
Task await_in_condition(int times) {
  if (co_await Value<bool>{times > 0}) body_ran = true;
}
bool skips_body() {
  // Its frame is laid out wrongly where the bug is: it may neither be asked nor destroyed.
  Task task = await_in_condition(1);
  std::exchange(task.frame, nullptr).resume();
  return !body_ran;
}

Task take(const Aggregate&) { co_return; }
Task aggregate_argument() { co_await take(Aggregate{Counted{}, 1}); }

template <class Body>
Task call(const Body& body) {
  body();
  co_return;
}
Task lambda_argument() {
  const Counted counted;
  co_await call([counted] { (void)counted; });
}

Task aggregate_initializer() {
  const Counted counted;
  const Aggregate whole{counted, co_await Value<int>{2}};
  (void)whole;
}

struct Place {
  std::size_t at = 0;
  std::size_t size = 0;
};
std::size_t size_of(std::size_t message) { return message * 7 % 150; }

class Message {
 public:
  Message(int& link, const Place& place) noexcept : place_(place), link_(link) {}
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const { return look(*this); }
  void await_resume() const noexcept {}
  static bool count_if_wrong(const Message& message) {
    if (message.place_.size != size_of(message.place_.at)) ++message.link_;
    return false;
  }

 private:
  static bool (*volatile look)(const Message&);  // what the compiler cannot see through

  Place place_;
  int& link_;
};
bool (*volatile Message::look)(const Message&) = Message::count_if_wrong;
Message send(int& link, Place place) { return {link, place}; }

Task send_messages(int& link) {
  for (std::size_t i = 0; i < 10; ++i) co_await send(link, Place{i, size_of(i)});
}
bool loses_word() {
  int wrong = 0;
  const Task task = send_messages(wrong);
  task.frame.resume();
  return wrong != 0;
}

bool unbalanced(Task task) {
  task.frame.resume();
  std::exchange(task.frame, nullptr).destroy();
  return std::exchange(balance, 0) != 0;
}

}  // namespace

int main() {
  int found = 0;
  const auto report = [&found](bool present, const char* name) {
    if (present) std::printf("%s%s", found++ == 0 ? "" : ", ", name);
  };
  report(skips_body(), "await in a condition skips the body");
  report(unbalanced(aggregate_argument()), "aggregate argument destroyed twice");
  report(unbalanced(lambda_argument()), "lambda argument destroyed twice");
  report(unbalanced(aggregate_initializer()), "aggregate around an await destroyed twice");
  report(loses_word(), "vectorizer loses a word of an awaited value (avoid: -fno-tree-slp-vectorize)");
  if (found == 0) std::printf("none");
  return 0;
}
