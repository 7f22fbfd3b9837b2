#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that each rule of tidy_test.py can fail, and that what is right passes."""

import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
import check_awaits
import tidy_documents
import tidy_test

HEADER = "// SPDX-License-Identifier: Apache-2.0\n"

# Bodies of a coroutine that are right.
GOOD_AWAITS = """
co_await link.post(Ack);
co_await link.put(mine, op.recv[peer]);
const Rank root = co_await elect(comm);
auto&& value = co_await elect(comm);
[[maybe_unused]] const int unused = co_await elect(comm);
value = co_await elect(comm);
(void)co_await elect(comm);
co_return co_await finish(comm);
if (ready && !(late || lost)) co_await link.wait(Ack);
if (ready) co_await a(); else co_await b();
else co_return co_await finish(comm);
for (auto x : xs) co_await f(x);
for (int t = 0; t < n; ++t) co_await shift(block[ring.at(-t)], block[ring.at(-t - 1)], k);
while (true) { co_await step(); }
do { co_await step(); } while (more());
switch (kind) { case Kind::one: co_await one(); break; default: co_await other(); }
auto body = [&]() -> Task<> { co_await x(); };
auto body = [this, peer](Rank rank) mutable -> Task<std::vector<int>> { co_await x(); co_return 1; };
auto generic = []<class T>(T value) -> Task<> { co_await value(); };
const Options options{.label = name}; co_await send(options);
co_await when_all(f(), g());
co_await std::move(task);
const auto parts = split(text, [](char c) { return c == ','; }); co_await send(parts);
run([&]() -> Task<> { co_await x(); });
scope.spawn([]() -> Task<> { co_await x(); }());
const int number = [&] { return 1; }();
scope.spawn([&] { return train(comm); }());
struct Local { Task<> go() { co_await x(); } int field{1}; }; Local local{2};
try { co_await x(); } catch (const Error& error) { failed = true; }
const char* text = "if (co_await x) {"; // if (co_await x) co_await y({});
auto awaiter = task.operator co_await();
const char c = '{'; const int n = 1'000; co_await f(c, n);
const auto text = R"(co_await f({})" })"; co_await x();
""".strip().split("\n")

# Bodies that are wrong, with the rules they break.
BAD_AWAITS = (
    ("if (co_await x) f();", "await-condition"),
    ("if (const bool v = co_await x; v) f();", "await-condition"),
    ("if (a) { b(); } else if (co_await x) { f(); }", "await-condition"),
    ("while (co_await x) { f(); }", "await-condition"),
    ("do { f(); } while (co_await x);", "await-condition"),
    ("switch (co_await x) { default: break; }", "await-condition"),
    ("for (; co_await x;) f();", "await-condition"),
    ("for (auto y : co_await xs()) f(y);", "await-condition"),
    ("if (any([&] { return co_await x; })) f();", "await-unbound"),
    ("auto body = [&]() -> Task<> { if (co_await x) f(); };", "await-condition"),
    ("co_await f(co_await g());", "await-twice"),
    ("const int v = co_await f() +\n    co_await g();", "await-twice"),
    ("co_await send(Options{.label = name});", "await-braces"),
    ("co_await send({1, 2, 3});", "await-braces"),
    ("co_await send(\n    Options{\n        .label = name});", "await-braces"),
    ("for (auto x : xs) co_await f(Pair{x, 1});", "await-braces"),
    ("Agg a{x, co_await y};", "await-braces await-unbound"),
    ("co_await run([k] { f(k); });", "await-lambda"),
    ("co_await [&]() -> Task<> { co_return; }();", "await-lambda"),
    ("scope.spawn([&grad]() -> Task<> { co_await use(grad); }());", "await-captures"),
    ("auto task = [=, this](int n) -> Task<int> { co_return n; }(3);", "await-captures"),
    ("stream.enqueue(with([&] { return 1; }), [&]() -> Task<> {\n  co_await x();\n}());", "await-captures"),
    ("auto body = [v = co_await x] { return v; };", "await-lambda await-unbound"),
    ("auto [a, b] = co_await f();", "await-binding"),
    ("auto& [a, b] = co_await f();", "await-binding"),
    ("const int v = c ? 1 : co_await f();", "await-ternary await-unbound"),
    ("const int v = co_await f(c ? 1 : 2);", "await-ternary"),
    ("const bool v = ready && co_await f();", "await-logic await-unbound"),
    ("const bool v = co_await f() || late;", "await-logic"),
    ("const bool v = co_await f() and late;", "await-logic"),
    ("EXPECT_EQ(co_await x, 1);", "await-macro await-unbound"),
    ("const int v = co_await TRY(f());", "await-macro"),
    ("COHORT_ASSERT(co_await x,\n    \"{}\");", "await-macro await-unbound"),
    ("f(co_await g());", "await-unbound"),
    ("total += co_await g();", "await-unbound"),
    ("return f(co_await g(), [] { return 1; });", "await-unbound await-lambda"),
    ("\n#define AWAIT(x) co_await x\n", "await-macro"),
    ("\n#if FAST\n  co_await a();\n#else\n  co_await a({});\n#endif\n", "await-braces"),
    ("\n#if FAST\n  if (a) {\n#elif SLOW\n  if (b) {\n#else\n  if (co_await c) {\n#endif\n  }\n", "await-condition"),
)

# (path, includes or code, rules)
FILES = (
    ("streams/stream.h", "#include <cohort/notify/notify.h>", ""),
    ("streams/stream.h", "#include <cohort/net/link.h>", "layer"),
    ("net/link.h", "#include <cohort/streams/stream.h>", "layer"),
    ("engine/task.h", "#include <cohort/notify/notify.h>", "layer"),
    ("engine/task.h", "// #include <cohort/notify/notify.h>", ""),
    ("collectives/schedules/exec.h", "#include <cohort/streams/stream.h>\n#include <cohort/net/link.h>", ""),
    ("collectives/schedules/exec.h", "#include <cohort/cohort.h>", "layer"),
    ("collectives/selection/selection.h", "#include <cohort/collectives/call/call.h>", ""),
    ("collectives/call/call.h", "#include <cohort/collectives/selection/selection.h>", "layer"),
    ("collectives/call/call.h", "#include <cohort/collectives/communicator.h>", "layer"),
    ("collectives/call/call.h", "#include <cohort/collectives/attic/thing.h>", "layer"),
    ("collectives/communicator.h", "#include <cohort/collectives/core/communicator_core.h>", ""),
    ("collectives/machines/check/check.h", "#include <cohort/collectives/schedules/exec.h>", ""),
    ("collectives/machines/check/check.h", "#include <cohort/collectives/call/call.h>", "layer"),
    ("collectives/communicator.h", "#include <cohort/collectives/machines/check/check.h>", "layer"),
    ("tools/run.h", "#include <cohort/cohort.h>\n#include <CLI/CLI.hpp>", ""),
    ("tools/run.h", "#include <cohort/net/shm/shm_link.h>", "layer"),
    ("samples/hello.h", "#include <cohort/engine/loop/inbox.h>", "layer"),
    ("samples/hello.h", "#include <cohort/tools/run.h>", "layer"),
    ("tests/net/link_test.h", "#include <cohort/net/shm/shm_link.h>\n#include <gtest/gtest.h>", ""),
    ("helpers/thing.h", "", "layer"),
    ("engine/task.h", '#include "cohort/engine/clock.h"', "include-spelling"),
    ("engine/engine.h", "#include <liburing.h>", "fence"),
    ("engine/io/uring_driver.cpp", "#include <liburing.h>", ""),
    ("engine/engine.cpp", "#include <concurrentqueue/concurrentqueue.h>", "fence"),
    ("engine/loop/inbox.cpp", "#include <concurrentqueue/concurrentqueue.h>", ""),
    ("net/link.cpp", "#include <openssl/evp.h>", "fence"),
    ("net/auth/proof.cpp", "#include <openssl/evp.h>", ""),
    ("collectives/schedules/exec.cpp", "#include <hwy/highway.h>", "fence"),
    ("collectives/memory/reduction/sum.cpp", "#include <hwy/highway.h>", ""),
    ("net/link.cpp", "#include <infiniband/verbs.h>", "fence"),
    ("collectives/schedules/exec.cpp", "#include <nlohmann/json.hpp>", "fence"),
    ("engine/engine.cpp", "#include <gtest/gtest.h>", "fence"),
    ("net/link.cpp", "#include <sys/socket.h>", "system-io"),
    ("streams/stream.cpp", "#include <unistd.h>", "system-io"),
    ("engine/io/socket.cpp", "#include <sys/socket.h>\n#include <unistd.h>", ""),
    ("tools/run.cpp", "#include <unistd.h>", ""),
    ("net/link.cpp", "const auto t = std::chrono::steady_clock::now();", "clock"),
    ("notify/event.cpp", "std::this_thread::sleep_for(delay);", "clock"),
    ("net/link.cpp", "const auto t = engine.now(); // steady_clock", ""),
    ("engine/clock.cpp", "const auto t = std::chrono::steady_clock::now();", ""),
    ("collectives/schedules/algorithms/ring.cpp", "auto both = when_all(take(), pass());", "schedule-streams"),
    ("collectives/schedules/links/exchange.h", "Notify arrived;", "schedule-streams"),
    ("collectives/schedules/links/exchange.h", "LocalNotify arrived = x.notify(); // not when_all", ""),
    ("collectives/run.cpp", "auto both = when_all(take(), pass());", ""),
    ("engine/clock.cpp", "int x;" + " " * 120 + "int y;", "line-length"),
    ("engine/clock.cpp", "int x; ", "trailing-blank"),
    ("engine/clock.cpp", "\tint x;", "tab"),
    ("engine/clock.cpp", "// TO" + "DO later", "unfinished"),
    ("engine/clock.cpp", 'const char* home = "/ho' + 'me/somebody/cohort";', "absolute-path"),
    ("engine/clock.cpp", 'const char* home = "/tmp/cohort";', ""),
    ("engine/clock.cpp", "int x;\n" * 499, ""),
    ("engine/clock.cpp", "int x;\n" * 500, "file-length"),
)


def function_of(lines, head="int f(int a) {", tail="}"):
    return "\n".join([head] + ["  ++a;"] * (lines - 2) + [tail])


FUNCTIONS = (
    ("int f(int a) {", "}"),
    ("template <class T, class U = int>\nint f(T a) noexcept {", "}"),
    ("Foo::Foo(int a) : b_{a}, c_(a) {", "}"),
    ("Foo::~Foo() {", "}"),
    ("auto f(int a) -> std::vector<int> {", "}"),
    ("bool operator==(const A& a, const A& b) {", "}"),
    ("namespace n {\nclass [[nodiscard]] C final : public B<int> {\n public:\n  int f(int a) const override {", "}\n};\n}"),
    ("TEST(Suite, keeps_its_promise) {", "}"),
    ("auto f = [](int a) {", "};"),
    ("int f(int a) {\n  auto g = [&] {", "  };\n}"),
    ("#ifdef FAST\nint f(int a) {\n#else\nint f(long a) {\n#endif", "}"),
)


seen_to_fail = set()


def rules_of(path, text, has_own_header=False):
    rules = {finding.rule for finding in tidy_test.check_file(path, text, has_own_header)}
    seen_to_fail.update(rules)
    return " ".join(sorted(rules))


def whole_file(path, code):
    return HEADER + ("#pragma once\n" if path.endswith(".h") else "") + code + ("\n" if not code.endswith("\n") else "")


class Rules(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        source = "".join(pathlib.Path(module.__file__).read_text() for module in (tidy_test, check_awaits, tidy_documents))
        rules = set(re.findall(r'^ *yield (?:.+?, )?"([a-z-]+)", ', source, re.MULTILINE))
        assert rules and rules == seen_to_fail, f"never seen to fail: {rules ^ seen_to_fail}"

    def check_body(self, body, rules):
        code = f"{HEADER}namespace cohort {{\nTask<> Comm::go(int a) {{\n{body}\n}}\n}}\n"
        with self.subTest(body=body):
            self.assertEqual(rules_of("engine/task.cpp", code), " ".join(sorted(rules.split())))

    def test_right_awaits_pass(self):
        for body in GOOD_AWAITS:
            self.check_body(body, "")

    def test_wrong_awaits_fail(self):
        for body, rules in BAD_AWAITS:
            self.check_body(body, rules)

    def test_the_line_of_a_wrong_await_is_told(self):
        code = HEADER + "Task<> f() {\n  int x;\n  if (\n      co_await x) {\n  }\n}\n"
        self.assertEqual([(f.rule, f.line) for f in tidy_test.check_file("engine/f.cpp", code)], [("await-condition", 5)])

    def test_files(self):
        for path, code, rules in FILES:
            with self.subTest(path=path, code=code[:60]):
                self.assertEqual(rules_of(path, whole_file(path, code)), rules)

    def test_length_of_functions(self):
        for head, tail in FUNCTIONS:
            with self.subTest(head=head):
                self.assertEqual(rules_of("engine/f.cpp", whole_file("engine/f.cpp", function_of(40, head, tail))), "")
                self.assertEqual(rules_of("engine/f.cpp", whole_file("engine/f.cpp", function_of(70, head, tail))),
                                 "function-length")
        exactly = whole_file("engine/f.cpp", function_of(60))
        self.assertEqual(rules_of("engine/f.cpp", exactly), "")
        self.assertEqual(rules_of("engine/f.cpp", exactly.replace("++a;", "++a;\n", 1)), "function-length")

    def test_tables_and_classes_are_no_functions(self):
        for head, tail in (("class C {", "};"), ("constexpr std::array kTable = {", "};"), ("namespace n {", "}"),
                           ("enum class E : int {", "};"), ("const auto kTable = make(2, {", "});")):
            with self.subTest(head=head):
                code = "\n".join([head] + ["  a,"] * 80 + [tail])
                self.assertEqual(rules_of("engine/f.cpp", whole_file("engine/f.cpp", code)), "")

    def test_length_of_python_functions(self):
        code = "# SPDX-License-Identifier: Apache-2.0\ndef f(a):\n" + "    a += 1\n" * 60
        self.assertEqual(rules_of("tests/f.py", code), "function-length")

    def test_first_lines(self):
        self.assertEqual(rules_of("engine/f.cpp", "int x;\n"), "spdx")
        self.assertEqual(rules_of("cmake/f.cmake", "set(x 1)\n"), "spdx")
        self.assertEqual(rules_of("run", "#!/usr/bin/env bash\nset -e\n"), "spdx")
        self.assertEqual(rules_of("run", "#!/usr/bin/env bash\n# SPDX-License-Identifier: Apache-2.0\n"), "")
        self.assertEqual(rules_of("engine/f.h", HEADER + "int x;\n"), "pragma-once")
        self.assertEqual(rules_of("engine/f.cpp", HEADER + "int x;"), "final-newline")

    def test_own_header_comes_first(self):
        right = HEADER + "#include <cohort/engine/f.h>\n\n#include <cohort/engine/a.h>\n"
        wrong = HEADER + "#include <cohort/engine/a.h>\n#include <cohort/engine/f.h>\n"
        self.assertEqual(rules_of("engine/f.cpp", right, has_own_header=True), "")
        self.assertEqual(rules_of("engine/f.cpp", wrong, has_own_header=True), "own-header")
        self.assertEqual(rules_of("engine/f.cpp", wrong), "")

    def test_the_formatter_has_the_same_columns(self):
        style = (pathlib.Path(__file__).parent.parent / ".clang-format").read_text()
        self.assertEqual(int(re.search(r"ColumnLimit: (\d+)", style)[1]), tidy_test.MAX_COLUMNS)


LONG = "word " * 24  # of 140 columns no more than this
PARAGRAPH = "\n".join([LONG.rstrip()] * 5) + "\n"

# (path, text, rules)
PAGES = (
    ("docs/use/guide.md", PARAGRAPH, ""),
    ("docs/use/guide.md", PARAGRAPH + "and\n", "paragraph"),
    ("docs/use/guide.md", PARAGRAPH + "\n" + PARAGRAPH, ""),
    ("docs/use/guide.md", PARAGRAPH + "- an item\n" + "1. another\n# a heading\n", ""),
    ("docs/use/guide.md", "- " + PARAGRAPH + "  and\n", "paragraph"),
    ("docs/use/guide.md", "```\n" + PARAGRAPH * 2 + "```\n", ""),
    ("docs/use/guide.md", PARAGRAPH + "| " + "word " * 60 + "|\n", ""),
    ("docs/use/guide.md", "x" * 140 + "\n", ""),
    ("docs/use/guide.md", "x" * 141 + "\n", "page-width"),
    ("docs/use/guide.md", "text\n    " + "x" * 141 + "\n", "page-width"),
    ("docs/use/guide.md", "text\n\n    " + "x" * 141 + "\n\n    " + "x" * 141 + "\n", ""),
    ("docs/use/guide.md", "```\n" + "x" * 141 + "\n```\n", ""),
    ("README.md", "x" * 141 + "\n", "page-width"),
    ("bench/README.md", PARAGRAPH + "and\n", "paragraph"),
    ("tests/notes.md", "x" * 141 + "\n" + PARAGRAPH, ""),
    ("docs/design/engine.md", "It waits 20 us.\n", "design-figure"),
    ("docs/design/engine.md", "| a wake | 1.5ms |\n", "design-figure"),
    ("docs/design/engine.md", "```\n7 ns\n```\n", "design-figure"),
    ("docs/design/engine.md", "It waits until a due timer; 64 KiB, `COHORT_SPIN_US`, 2 ms_more, 3 users.\n", ""),
    ("docs/operate/faults.md", "after 100 ms\n", ""),
)


class Pages(unittest.TestCase):
    def test_paragraphs_lines_and_figures(self):
        for path, text, rules in PAGES:
            with self.subTest(path=path, text=text[:60]):
                self.assertEqual(rules_of(path, text), rules)

    def check_link(self, link, rules):
        files = {"docs/use/guide.md": "# One `call`, two\n```\n# no heading\n```\n", "docs/use": "", "run": ""}
        found = list(tidy_documents.check_links("docs/design/engine.md", f"See [it]({link}).\n\n## Own part\n", files.get))
        seen_to_fail.update(rule for _, rule, _ in found)
        with self.subTest(link=link):
            self.assertEqual([rule for _, rule, _ in found], rules)

    def test_links_lead_somewhere(self):
        for link in ("../use/guide.md", "../use/guide.md#one-call-two", "../use", "../../run", "#own-part", "https://x.org/y#z"):
            self.check_link(link, [])
        for link in ("guide.md", "../use/guide.md#no-heading", "../use/guide.md#two", "#part", "docs/use/guide.md"):
            self.check_link(link, ["broken-link"])

    def test_every_page_is_in_the_index(self):
        pages = ["docs/README.md", "docs/use/guide.md", "docs/use/c.md"]
        found = list(tidy_documents.check_index("docs/README.md", "[one](use/guide.md#part), [c](use/c.md)", pages))
        self.assertEqual(found, [])
        found = list(tidy_documents.check_index("docs/README.md", "[one](use/guide.md#part)", pages))
        self.assertEqual([(rule, "docs/use/c.md" in message) for _, rule, message in found], [("orphan-page", True)])
        seen_to_fail.update(rule for _, rule, _ in found)

    def test_what_stands_in_code_is_no_link(self):
        self.assertEqual(list(tidy_documents.check_links("README.md", "```\n[x](y.md)\n```\n", {}.get)), [])


class PublicHeaders(unittest.TestCase):
    def test_closure_is_taken(self):
        files = {
            "cohort.h": "#include <cohort/collectives/communicator.h>",
            "collectives/communicator.h": "#include <cohort/collectives/call/call.h>",
            "collectives/call/call.h": "#include <cohort/net/slice.h>\n#include <vector>",
            "net/slice.h": "// #include <cohort/net/tcp/frame.h>",
        }
        self.assertEqual(list(tidy_test.check_public_headers(files.__getitem__)), [])
        files["net/slice.h"] = "#include <cohort/net/tcp/frame.h>"
        found = list(tidy_test.check_public_headers(files.__getitem__))
        self.assertEqual([(one.path, one.rule) for one in found], [("net/slice.h", "public")])
        seen_to_fail.update(one.rule for one in found)


if __name__ == "__main__":
    unittest.main()
