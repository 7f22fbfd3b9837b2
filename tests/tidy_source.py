# SPDX-License-Identifier: Apache-2.0
"""C++ source as tidy_test.py sees it: text without comments and literals, tokens, and a tree of blocks and statements.

No parser of C++: a reader of the C++ that this project writes, formatted or not. Where it has to guess it asks what
stands before a brace. Both sides of an #if are read, one after the other.
"""

import dataclasses
import re

LITERAL_OR_COMMENT = re.compile(
    r"""(?P<raw>\b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\([\s\S]*?\)(?P=delimiter)")
      | (?P<comment>//(?:\\\n|[^\n])*|/\*[\s\S]*?\*/)
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
      | (?P<char>'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_]\w*)""",
    re.VERBOSE,
)
TOKEN = re.compile(
    r'[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.\'])*|"[^"]*"|::|->|&&|\|\||<=>|[<>=!+\-*/%&|^]=|\+\+|--|\.\.\.|\S'
)
OPEN = {"(": ")", "[": "]", "{": "}", "<": ">"}
CLASS_KEYS = {"class", "struct", "union", "enum"}
CONTROLS = {"if", "for", "while", "switch", "catch"}
KEYWORDS_BEFORE_OPERAND = {
    "return", "co_return", "co_await", "co_yield", "throw", "case", "else", "do", "and", "or", "not"
}


@dataclasses.dataclass
class Token:
    text: str
    line: int


@dataclasses.dataclass
class Block:
    """Braces around statements; kind: file, namespace, class, function, lambda, control or plain."""

    kind: str
    line: int
    text: str = "{}"
    statements: list = dataclasses.field(default_factory=list)
    end_line: int = 0


def without_comments_and_literals(text):
    """Same lines and columns; comments become blanks, literals keep their quotes only."""

    def blank(match):
        found = match.group()
        if match["number"] or match["word"]:
            return found
        spaces = re.sub(r"[^\n]", " ", found)
        return spaces if match["comment"] else f'"{spaces[1:-1]}"'

    return LITERAL_OR_COMMENT.sub(blank, text)


def directives(code):
    """(line, text) of each preprocessor directive, with its continuation lines joined."""
    found = []
    continued = False
    for number, line in enumerate(code.split("\n"), 1):
        if continued:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + line)
        elif re.match(r"\s*#", line):
            found.append((number, line))
        else:
            continue
        continued = line.rstrip().endswith("\\")
    return found


def variants(code):
    """The code as the preprocessor could leave it: with every first branch of #if taken, every second, ..."""
    branch_of_line, group_sizes, stack = [], [], []
    hidden = set()
    for number, text in directives(code):
        hidden.update(range(number, number + text.count("\n") + 1))
    for number, line in enumerate(code.split("\n"), 1):
        word = re.match(r"\s*#\s*(\w*)", line)
        word = word[1] if word and number in hidden else ""
        if word.startswith("if"):
            stack.append([len(group_sizes), 0])
            group_sizes.append(1)
        elif word in ("else", "elif") and stack:
            stack[-1][1] += 1
            group_sizes[stack[-1][0]] += 1
        elif word == "endif" and stack:
            stack.pop()
        branch_of_line.append([] if number in hidden else [tuple(entry) for entry in stack])
    for taken in range(max(group_sizes, default=1)):
        kept = []
        for number, line in enumerate(code.split("\n"), 1):
            chosen = all(branch == min(taken, group_sizes[group] - 1) for group, branch in branch_of_line[number - 1])
            kept.append(line if chosen and number not in hidden else "")
        yield "\n".join(kept)


def tokenize(code):
    return [Token(m.group(), n) for n, line in enumerate(code.split("\n"), 1) for m in TOKEN.finditer(line)]


def is_operand(token):
    """Whether a value can end with this token: `[` after it is a subscript, not a lambda."""
    return token.text not in KEYWORDS_BEFORE_OPERAND and re.fullmatch(r'\w+|[\])"].*', token.text) is not None


def start_of_group(items, end):
    """Index of the bracket that items[end] closes, or -1."""
    close, depth = items[end].text, 0
    opening = next(key for key, value in OPEN.items() if value == close)
    for index in range(end, -1, -1):
        depth += (items[index].text == close) - (items[index].text == opening)
        if depth == 0:
            return index
    return -1


def end_of_group(items, start):
    """Index of the bracket that closes items[start], or the last index."""
    opening, depth = items[start].text, 0
    for index in range(start, len(items)):
        depth += (items[index].text == opening) - (items[index].text == OPEN[opening])
        if depth == 0:
            return index
    return len(items) - 1


def is_lambda_introducer(items, index):
    """Whether the `[` at this index opens a lambda: neither a subscript, nor an attribute, nor a structured binding."""
    if items[index].text != "[":
        return False
    if items[index + 1 : index + 2] and items[index + 1].text == "[":
        return False
    if index == 0:
        return True
    before = items[index - 1]
    if before.text == "[" or before.text == "auto":
        return False
    if before.text in ("&", "&&") and index >= 2 and items[index - 2].text == "auto":
        return False
    return not is_operand(before)


def ends_with_lambda_head(items):
    """Whether a brace after these tokens opens the body of a lambda: [..](..) specifiers -> type."""
    end = len(items)
    for index in range(end - 1, 0, -1):  # a trailing return type
        if items[index].text == "->":
            end = index
            break
        if not re.fullmatch(r"\w+|::|[<>,*&]|&&", items[index].text):
            break
    while end > 0 and items[end - 1].text in ("mutable", "constexpr", "noexcept", "static"):
        end -= 1
    for close in (")", ">"):  # parameters, then template parameters
        if end > 0 and items[end - 1].text == close:
            start = start_of_group(items[:end], end - 1)
            end = start if start > 0 else end
    if end == 0 or items[end - 1].text != "]":
        return False
    start = start_of_group(items[:end], end - 1)
    return start >= 0 and is_lambda_introducer(items, start)


def split_control(items):
    """(groups in the parentheses of leading if, for, while, ...; what they control)."""
    groups = []
    while items:
        if items[0].text in ("else", "do", "try"):
            items = items[1:]
        elif items[0].text in CONTROLS:
            start = next((i for i, item in enumerate(items) if item.text == "("), None)
            if start is None:
                break
            end = end_of_group(items, start)
            groups.append(items[start + 1 : end])
            items = items[end + 1 :]
        else:
            break
    return groups, items


def at_top(items):
    """The items outside every bracket; each group is left as its two brackets."""
    kept, index = [], 0
    while index < len(items):
        kept.append(items[index])
        if items[index].text in ("(", "[", "{"):
            index = end_of_group(items, index)
            kept.append(items[index])
        index += 1
    return kept


def without_template(items):
    while items and items[0].text == "template" and len(items) > 1 and items[1].text == "<":
        items = items[end_of_group(items, 1) + 1 :]
    return items


def kind_of_declaration(head, enclosing):
    """What a brace after this head at namespace or class scope opens; None for an initialiser."""
    top = [item.text for item in at_top(without_template(head))]
    plain = [text for text in top if text not in ("typedef", "static", "constexpr", "inline", "friend", "const", "export")]
    if "namespace" in top[:2] or (top[:1] == ["extern"] and top[-1].startswith('"')):
        return "namespace"
    assigns = any(text == "=" and top[i - 1] != "operator" for i, text in enumerate(top))
    has_arguments = any(text == "(" and top[i - 1] not in ("alignas", "requires") for i, text in enumerate(top))
    if plain and plain[0] in CLASS_KEYS and not assigns and not has_arguments:
        return "class"
    if enclosing not in ("file", "namespace", "class") or assigns or not has_arguments:
        return None
    after_arguments = top[top.index(")") + 1 :]
    in_member_initialisers = ":" in after_arguments
    if in_member_initialisers and re.fullmatch(r"\w+|>", top[-1]):
        return None
    return "function"


def kind_of_brace(statement, depth, enclosing):
    """What `{` after these items opens; None for an initialiser."""
    if not statement:
        return "plain"
    if ends_with_lambda_head(statement):
        return "lambda"
    if depth > 0 or statement[-1].text in ("=", ",", "(", "return", "co_return"):
        return None
    groups, rest = split_control(statement)
    if not rest:
        return "control"
    if groups:
        return None
    kind = kind_of_declaration(rest, enclosing)
    if kind is None and enclosing not in ("file", "namespace", "class") and rest[-1].text in (")", ":"):
        return "control"  # a macro that loops, a label
    return kind


class Reader:
    """Builds the tree of blocks from tokens."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.position = 0

    def read(self, kind="file", line=1):
        block = Block(kind, line)
        statement, brackets = [], []
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            self.position += 1
            if token.text == "{":
                opened = kind_of_brace(statement, len(brackets), kind)
                if opened is not None:
                    statement.append(self.read(opened, token.line))
                    if not brackets and opened not in ("lambda", "class"):
                        block.statements.append(statement)
                        statement = []
                    continue
            if token.text == "}" and "{" not in brackets:
                block.end_line = token.line
                break
            if token.text == ";" and not brackets:
                block.statements.append(statement)
                statement = []
                continue
            self.count(token.text, brackets)
            statement.append(token)
            if token.text == ":" and not brackets and self.is_label(statement):
                statement = []
        if statement:
            block.statements.append(statement)
        return block

    @staticmethod
    def count(text, brackets):
        if text in ("(", "[", "{"):
            brackets.append(text)
        elif text in (")", "]", "}"):
            while brackets and OPEN[brackets.pop()] != text:
                pass

    @staticmethod
    def is_label(statement):
        return statement[0].text in ("case", "default", "public", "private", "protected")


def blocks_of(code):
    """One tree per way through the #ifs."""
    for variant in variants(code):
        yield Reader(tokenize(variant)).read()


def statements_in(block):
    """(statement, enclosing block) of every statement, inner ones included."""
    for statement in block.statements:
        yield statement, block
        for item in statement:
            if isinstance(item, Block):
                yield from statements_in(item)


def functions_in(block):
    """(first line, last line) of every function that is not inside another one; lambdas outside of functions too."""
    for statement in block.statements:
        for item in statement:
            if not isinstance(item, Block):
                continue
            if item.kind in ("function", "lambda"):
                yield statement[0].line, item.end_line
            elif item.kind in ("namespace", "class", "plain"):
                yield from functions_in(item)
