#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds uses of co_await that g++ 12 compiles into wrong programs, without a warning, in C++ sources of anybody.

Prints PATH:LINE: RULE: what to write instead; fails if there is anything. Installed beside the library (share/cohort).
It reads text, not C++: a finding may be harmless, and no finding is no proof. One bug has no form that avoids it: compile
with -fno-tree-slp-vectorize.
"""

import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from tidy_source import (Block, Token, blocks_of, directives, is_lambda_introducer, split_control, statements_in,
                         without_comments_and_literals)

SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".C", ".ipp", ".inl")
MACRO_NAME = re.compile(r"[A-Z][A-Z0-9_]+|assert")


def awaits_in(tokens):
    return [
        index for index, token in enumerate(tokens)
        if token.text == "co_await" and not (index > 0 and tokens[index - 1].text == "operator")
    ]


def is_bound(tokens, index):
    """Whether the co_await stands alone, starts a named local or is returned."""
    before = [token.text for token in tokens[:index]]
    opened = sum(text in ("(", "[") for text in before) - sum(text in (")", "]") for text in before)
    return not before or before in (["co_return"], ["(", "void", ")"]) or (before[-1] == "=" and opened == 0)


def check_statement(tokens):
    """Findings of a statement, without the parentheses of if, for, ... before it, that has a co_await of its own."""
    awaits = awaits_in(tokens)
    if len(awaits) > 1:
        yield "await-twice", "two co_await in a statement: give each result a name in a statement of its own"
    for index, token in enumerate(tokens):
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        before = tokens[index - 1].text if index > 0 else ""
        if (isinstance(token, Block) and token.kind == "lambda") or is_lambda_introducer(tokens, index):
            yield "await-lambda", "a lambda in a statement with co_await: name it first"
        elif token.text == "{" or isinstance(token, Block):
            yield "await-braces", "braces in a statement with co_await: name the value first"
        elif token.text == "[" and (before == "auto" or tokens[max(index - 2, 0)].text == "auto"):
            yield "await-binding", "a structured binding of co_await: name the whole result first"
        elif token.text == "?":
            yield "await-ternary", "?: in a statement with co_await: use if, or await first"
        elif token.text in ("&&", "||", "and", "or") and not (token.text == "&&" and before == "auto"):
            yield "await-logic", f"{token.text} in a statement with co_await: await first"
        elif MACRO_NAME.fullmatch(token.text) and after == "(":
            yield "await-macro", f"co_await in a statement with the macro {token.text}: await first"
    if not is_bound(tokens, awaits[0]):
        yield "await-unbound", "the result of co_await starts a named local, is returned or is dropped: nothing else"


def is_coroutine(block):
    return any(
        isinstance(token, Token) and token.text in ("co_await", "co_return", "co_yield")
        for statement, _ in statements_in(block) for token in statement)


def check_captures(tokens):
    """A coroutine reads what a lambda has captured in the lambda itself, which ends with the statement that calls it."""
    opened = None
    for index, token in enumerate(tokens):
        if is_lambda_introducer(tokens, index):
            opened = index
        if not isinstance(token, Block) or token.kind != "lambda" or opened is None:
            continue
        is_called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if is_called and tokens[opened + 1].text != "]" and is_coroutine(token):
            yield tokens[opened].line, "await-captures", "a coroutine of a lambda that ends with the statement: name the lambda"


def check_awaits(code):
    """g++ 12 compiles co_await in these places into wrong programs, without a word; the last one every compiler."""
    for number, text in directives(code):
        if re.search(r"\bco_await\b", text):
            yield number, "await-macro", "co_await in a macro"
    for tree in blocks_of(code):
        for statement, _ in statements_in(tree):
            groups, rest = split_control(statement)
            for group in groups:
                if awaits := awaits_in(group):
                    yield group[awaits[0]].line, "await-condition", "co_await in a condition: give its result a name first"
            if awaits := awaits_in(rest):
                for rule, message in check_statement(rest):
                    yield rest[awaits[0]].line, rule, message
            else:
                yield from check_captures(rest)


def sources_in(path):
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return [path]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", metavar="FILE_OR_FOLDER", nargs="+", type=pathlib.Path)
    parser.add_argument("--quiet", action="store_true", help="print no totals")
    parser.add_argument("--warn", action="store_true", help="print findings as a compiler's warnings, and succeed")
    parser.add_argument("--stamp", type=pathlib.Path,
                        help="read what is there of the files in STAMP.list, too, name them in STAMP.d, as make reads it, and touch STAMP")
    given = parser.parse_args()
    for path in given.paths:
        if not path.exists():
            parser.error(f"there is no {path}")
    return given


def listed_in(stamp):
    paths = map(pathlib.Path, stamp.with_name(f"{stamp.name}.list").read_text().splitlines())
    return [path for path in paths if path.is_file()]


def leave(stamp, listed):
    # Itself, too: CMake 3.25 does not pass on to ninja that nothing is left of what was named before.
    escaped = (re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$") for path in [stamp, __file__, *listed])
    target, *dependencies = escaped
    stamp.with_name(f"{stamp.name}.d").write_text(f"{target}: {' '.join(dependencies)}\n")
    stamp.touch()


def main():
    given = arguments()
    listed = listed_in(given.stamp) if given.stamp else []
    paths = dict.fromkeys([file for path in given.paths for file in sources_in(path)] + listed)
    findings = 0
    for path in paths:
        code = without_comments_and_literals(path.read_text(encoding="utf-8", errors="replace"))
        for line, rule, message in sorted(set(check_awaits(code))):
            print(f"{path}:{line}: warning: {message} [{rule}]" if given.warn else f"{path}:{line}: {rule}: {message}")
            findings += 1
    if given.stamp and (given.warn or not findings):
        leave(given.stamp, listed)
        return 0
    if given.warn:
        return 0
    if not given.quiet:
        print(f"{len(paths)} files, {findings} findings")
    return 1 if findings or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
