#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules that hold for every file of the tree. Usage: tidy_test.py [ROOT]; prints what breaks one, fails if any does.

tidy_selftest.py proves that each rule can fail.
"""

import ast
import collections
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from check_awaits import check_awaits
from tidy_documents import check_index, check_links, check_page, is_page
from tidy_source import blocks_of, functions_in, without_comments_and_literals

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 110  # ColumnLimit of .clang-format, which does not break everything

# The layers: a folder may include itself and what it names here. Programs see public headers only; tests see all.
LIBRARY = ("engine", "notify", "streams", "net", "collectives")
LAYERS = {
    "engine": (),
    "notify": ("engine",),
    "streams": ("engine", "notify"),
    "net": ("engine", "notify"),
    "collectives": ("engine", "notify", "streams", "net"),
    "graph": LIBRARY,
    "bindings": LIBRARY + ("graph",),
    "tools": LIBRARY + ("graph",),
    "samples": LIBRARY + ("graph",),
    "bench": LIBRARY + ("graph", "bindings"),
    "tests": None,
    "cmake": (),
}
# The rooms of collectives/, from the lowest up: each may include those before it. What lies at the root is above all;
# the machines stand on the schedules alone, and nothing of the library on them.
ROOMS = ("schedules", "memory", "call", "selection", "calibration", "job", "onehost", "p2p", "core")
PROGRAMS = ("graph", "bindings", "tools", "samples")  # these see public headers only
FRONTS = ("cohort.h", "asio.h")  # what programs include of the tree's root
INTERNAL = re.compile(r"engine/(io/uring_driver|loop/inbox)\.h|net/(shm|tcp|verbs|framed)/|collectives/schedules/algorithms/")
# What no program reads by including <cohort/cohort.h>, however far behind other headers.
NOT_PUBLIC = re.compile(
    r"engine/io/uring_driver\.h|net/(shm|tcp|verbs|framed|host)/|net/auth/(?!secret\.h)|net/join/(?!(join_options|root_info)\.h)"
    r"|collectives/(machines|core|onehost|calibration|selection|schedules/algorithms)/"
    r"|collectives/call/(?!(call|tensor_call|function_reduction|tensor_list|typed_arguments)\.h)"
    r"|collectives/(job/(?!(communicator_options|wording)\.h)|memory/(?!(shared_)?buffer\.h)|p2p/(?!message_request\.h))"
)
AS_PRINTED = ("samples/hccl_gradients.cpp",)  # a program of somebody else's, whose text is kept
ABOVE_ENGINE = ("notify", "streams", "net", "collectives", "graph")

# Third-party headers stay behind their fence; tests may reach over it.
FENCES = (
    (r"liburing|linux/io_uring", r"engine/io/uring_driver\."),
    (r"concurrentqueue|blockingconcurrentqueue|lightweightsemaphore", r"engine/loop/inbox\."),
    (r"openssl/", r"net/auth/"),
    (r"hwy/", r"collectives/memory/reduction/"),
    (r"infiniband/|rdma/", r"net/verbs/"),
    (r"CLI/|nlohmann/", r"(tools|bench|samples)/|net/join/rank_table\.|graph/graph_json\."),
    (r"hwloc", r"tools/topo/numa\."),
    (r"benchmark/", r"bench/"),
    (r"mpi\.h|gloo/|oneapi/", r"bench/peers/"),
    (r"pybind11/|Python\.h", r"bindings/(python|torch)/"),
    (r"torch/|ATen/|c10/", r"bindings/torch/"),
    (r"asio(/|\.hpp)", r"bindings/asio/|samples/asio_server\."),
    (r"gtest/|gmock/", r"tests/"),
)
SYSTEM_IO = re.compile(
    r"(sys|netinet|arpa|linux|net)/.*|(unistd|fcntl|poll|time|netdb|ifaddrs|signal|spawn|pthread|sched)\.h|ctime|csignal"
)
SYSTEM_TIME = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday|this_thread|nanosleep|usleep)\b"
)
# What runs beside what in a schedule is its Exec's to know: the checker and the simulator learn of nothing else.
SCHEDULES = "collectives/schedules/"
BESIDE_EXEC = re.compile(r"\b(when_all|TaskScope|Notify|Event|with_scope|sleep_for|sleep_until)\b")
# What is there to see what g++ makes of them.
AWAITS_ON_PURPOSE = ("cmake/", "tests/bindings/asio/settings_in_braces_test.cpp")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.$}-])/(work|home|root|Users)/\w")
SPDX = "SPDX-License-Identifier: Apache-2.0"

Finding = collections.namedtuple("Finding", "path line rule message")


def cpp_includes(text, code):
    """(line, name, quote) of each #include; `code` tells which of them stand in a comment."""
    alive = code.split("\n")
    for line, raw in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', raw)
        if match and alive[line - 1].lstrip().startswith("#"):
            yield line, match[2], match[1]


def may_see_room(path, header):
    """Whether a file of collectives/ may include that header of it."""
    room, other = (name.split("/")[1] if name.count("/") > 1 else "" for name in (path, header))
    if "machines" in (room, other):
        return room == "machines" and other in ("machines", "schedules")
    return room == other or not room or (other in ROOMS and room in ROOMS and ROOMS.index(other) < ROOMS.index(room))


def check_includes(path, text, code, has_own_header):
    folder = path.split("/")[0] if "/" in path else ""
    own = "cohort/" + re.sub(r"\.cpp$", ".h", path)
    for position, (line, name, quote) in enumerate(cpp_includes(text, code)):
        if quote == '"':
            yield line, "include-spelling", f'#include "{name}": write <cohort/FOLDER/file.h>'
        if position == 0 and has_own_header and name != own:
            yield line, "own-header", f"a source includes its own header first: <{own}>"
        if folder in ABOVE_ENGINE and SYSTEM_IO.fullmatch(name):
            yield line, "system-io", f"<{name}>: nothing above engine/ talks to the system; add what is missing to engine/"
        for header, fence in FENCES:
            if folder != "tests" and re.match(header, name) and not re.match(fence, path):
                yield line, "fence", f"<{name}> stays behind its fence: {fence}"
        if name.startswith("cohort/") and folder in LAYERS and LAYERS[folder] is not None:
            target = name.split("/")[1]
            is_front = target in FRONTS
            if (is_front and folder not in PROGRAMS) or (not is_front and target not in (folder,) + LAYERS[folder]):
                yield line, "layer", f"{folder}/ may not include <{name}>; it sees {', '.join(LAYERS[folder]) or 'nothing'}"
            if target == folder == "collectives" and not may_see_room(path, name.removeprefix("cohort/")):
                yield line, "layer", f"{path} may not include <{name}>: rooms of collectives/ see those before them: {', '.join(ROOMS)}"
            if folder in PROGRAMS and INTERNAL.match(name.removeprefix("cohort/")):
                yield line, "layer", f"<{name}> is internal: {folder}/ uses public headers only"


def check_public_headers(read, start="cohort.h"):
    """Internal headers in the closure of what programs include; read(path) gives a header's text."""
    waiting, seen = [start], {start}
    while waiting:
        path = waiting.pop()
        text = read(path)
        for line, name, _ in cpp_includes(text, without_comments_and_literals(text)):
            if not name.startswith("cohort/"):
                continue
            header = name.removeprefix("cohort/")
            if NOT_PUBLIC.match(header):
                yield Finding(path, line, "public", f"<{name}> is internal, and <cohort/{start}> reads it")
            elif header not in seen:
                seen.add(header)
                waiting.append(header)


def check_layout(path, text, code):
    folder = path.split("/")[0] if "/" in path else ""
    lines = text.split("\n")
    if folder and folder not in LAYERS:
        yield 1, "layer", f"{folder}/ is in no layer: add it to LAYERS"
    if path.endswith(".h") and not path.endswith("-inl.h") and not any(line.strip() == "#pragma once" for line in lines[1:2]):
        yield 2, "pragma-once", "a header's second line is #pragma once"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS and "://" not in line:
            yield number, "line-length", f"{len(line)} columns; at most {MAX_COLUMNS}"
    if path.startswith(SCHEDULES):
        for number, line in enumerate(code.split("\n"), 1):
            if match := BESIDE_EXEC.search(line):
                yield number, "schedule-streams", f"{match[0]}: a schedule forks and waits by its Exec: x.fork_join, x.notify"
    if folder in ABOVE_ENGINE:
        for number, line in enumerate(code.split("\n"), 1):
            if match := SYSTEM_TIME.search(line):
                yield number, "clock", f"{match[0]}: nothing above engine/ reads the system's clock; ask the Engine"


def check_cpp_functions(code):
    for tree in blocks_of(code):
        for first, last in functions_in(tree):
            if last - first + 1 > MAX_FUNCTION_LINES:
                yield first, "function-length", f"a function of {last - first + 1} lines; at most {MAX_FUNCTION_LINES}"


def check_cpp(path, text, has_own_header):
    code = without_comments_and_literals(text)
    yield from check_includes(path, text, code, has_own_header)
    yield from check_layout(path, text, code)
    yield from check_cpp_functions(code)
    if not path.startswith(AWAITS_ON_PURPOSE):
        yield from check_awaits(code)


def check_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield node.lineno, "function-length", f"a function of {length} lines; at most {MAX_FUNCTION_LINES}"


def is_program_text(path, text):
    return path.endswith((".h", ".cpp", ".py", ".cmake", ".sh", "CMakeLists.txt", "Makefile")) or text.startswith("#!")


def check_text(path, text):
    lines = text.split("\n")
    if is_program_text(path, text):
        head = lines[1:2] if text.startswith("#!") else lines[:1]
        if not any(SPDX in line for line in head):
            yield 1, "spdx", f"the first line is {'//' if path.endswith(('.h', '.cpp')) else '#'} {SPDX}"
        if len(lines) - 1 > MAX_FILE_LINES:
            yield MAX_FILE_LINES, "file-length", f"{len(lines) - 1} lines; at most {MAX_FILE_LINES}"
    if text and not text.endswith("\n"):
        yield len(lines), "final-newline", "no newline at the end of the file"
    for number, line in enumerate(lines, 1):
        if "\t" in line and not path.endswith("Makefile"):
            yield number, "tab", "a tab"
        if line != line.rstrip():
            yield number, "trailing-blank", "blanks at the end of the line"
        if match := UNFINISHED.search(line):
            yield number, "unfinished", f"{match[0]}: finish it, or file an issue"
        if match := SOMEBODYS_FOLDER.search(line):
            yield number, "absolute-path", f"{match[0]}...: a path of somebody's machine"


def check_file(path, text, has_own_header=False):
    """Every finding of one file; path is relative to the root, with slashes."""
    if path in AS_PRINTED:
        return []
    found = list(check_text(path, text))
    if path.endswith((".h", ".cpp")):
        found += check_cpp(path, text, has_own_header)
    elif path.endswith(".py"):
        found += check_python(text)
    elif is_page(path):
        found += check_page(path, text)
    return [Finding(path, *entry) for entry in sorted(set(found))]


def is_text_of_ours(path):
    if path.suffix in (".h", ".cpp", ".py", ".cmake", ".sh", ".json", ".md", ".yml", ".in", ".txt"):
        return True
    return path.suffix == "" and path.name != "LICENSE"


def text_at(path):
    """Of a page, or "" for whatever else is there; None: nothing is."""
    if path.suffix != ".md":
        return "" if path.exists() else None
    return path.read_text(encoding="utf-8") if path.exists() else None


def files_below(folder):
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or path.name in (".git", "build", "__pycache__"):
            continue
        if path.is_dir() and not (path / "CMakeCache.txt").exists():
            yield from files_below(path)
        elif path.is_file() and is_text_of_ours(path):
            yield path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    findings, count = [], 0
    for path in files_below(root):
        count += 1
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue  # a data file
        has_own_header = path.suffix == ".cpp" and path.with_suffix(".h").exists()
        name = path.relative_to(root).as_posix()
        findings += check_file(name, text, has_own_header)
        if path.suffix == ".md":
            findings += [Finding(name, *entry) for entry in check_links(name, text, lambda other: text_at(root / other))]
    index = root / "docs/README.md"
    if index.exists():
        pages = [path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")]
        findings += [Finding("docs/README.md", *entry) for entry in check_index("docs/README.md", text_at(index), pages)]
    if (root / "cohort.h").exists():
        findings += check_public_headers(lambda path: (root / path).read_text(encoding="utf-8"))
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.message}")
    print(f"{count} files, {len(findings)} findings")
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
