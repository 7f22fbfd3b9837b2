#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each compile_errors/*.cpp is a mistake: the compiler has one error for it, with the words after `// error: `, of
which alternatives are separated by |. After that it may say more only where a comment has `errors: ` and how many. It is
told C++20, or what is after `// standard: `.

    compile_errors_test.py COMPILER FLAG...
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def complaint_about(path, command):
    """What is wrong with the compiler's answer; empty if it is as it should be."""
    text = path.read_text(encoding="utf-8")
    expected = re.search(r"^// error: (.*)$", text, re.MULTILINE)[1].split("|")
    most = re.search(r"\berrors: (\d+)$", text, re.MULTILINE)
    standard = re.search(r"^// standard: (.*)$", text, re.MULTILINE)
    command = [*command, f"-std={standard[1] if standard else 'c++20'}"]
    run = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=100, check=False)
    errors = [line for line in run.stderr.splitlines() if re.search(r"\berror: ", line)]
    if run.returncode == 0:
        return "compiles"
    if not 1 <= len(errors) <= (int(most[1]) if most else 1) or not any(words in errors[0] for words in expected):
        return f"expected one error with {expected}, got {len(errors)}:\n" + "\n".join(errors)
    return ""


def main():
    command = [*sys.argv[1:], "-fsyntax-only"]
    paths = sorted((pathlib.Path(__file__).parent / "compile_errors").glob("*.cpp"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(lambda path: complaint_about(path, command), paths))
    for path, complaint in zip(paths, complaints):
        if complaint:
            print(f"{path.name}: {complaint}")
    print(f"{len(paths)} mistakes, {sum(map(bool, complaints))} not told as they should be")
    return 1 if any(complaints) or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
