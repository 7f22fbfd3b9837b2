#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes of functions.txt what programs of MPI link to: generate.py FUNCTIONS FOLDER leaves calls.h and entries.cpp there.

With --trampoline INTERFACE it is trampoline.cpp instead, what MPItrampoline asks a library for.
"""

import argparse
import pathlib
import re

LINE = re.compile(r"(?P<forms>[fribpsc]+) (?P<name>\w+)\((?P<parameters>.*)\)")
HEADER = "// SPDX-License-Identifier: Apache-2.0\n// Made by generate.py of functions.txt.\n"


class Function:
    def __init__(self, forms, name, parameters):
        self.forms, self.name = forms, name
        self.parameters = [parameter.rpartition(" ") for parameter in parameters.split(", ") if parameter]
        self.parameters = [split_star(kind, name) for kind, _, name in self.parameters]

    @property
    def names(self):
        return [name for _, name in self.parameters]

    def declaration(self):
        kind = {"f": "void", "r": "int"}.get(self.forms[0], "Prepared")
        own = "comm_idup" + self.name[len("Comm_dup"):] if self.is_duplication() else self.name.lower()
        return f"{kind} {own}({', '.join(f'{inner(of)} {name}' for of, name in self.parameters)});"

    def is_duplication(self):
        return self.forms == "i"

    def comm(self):
        for kind, name in self.parameters:
            if name == "comm":
                return "*comm" if kind.endswith("*") else "comm"
        return "abi::kCommWorld"

    def entries(self):
        """C functions, each with its own types."""
        for is_large in (False, True) if "c" in self.forms else (False,):
            suffix = "_c" if is_large else ""
            types = [(outer(kind, is_large), name) for kind, name in self.parameters]
            call = f"mpi::{self.name.lower()}({', '.join(self.names)})"
            if self.forms[0] in "fr":
                helper = {"f": "call", "r": "call_for_code"}[self.forms[0]]
                yield self.entry(self.name + suffix, types, f"{helper}(NAME, {self.comm()}, [&] {{ return {call}; }})")
                continue
            if "b" in self.forms:
                status = "status" if "s" in self.forms else "abi::kStatusIgnore"
                more = [("MPI_Status*", "status")] if "s" in self.forms else []
                yield self.entry(self.name + suffix, types + more,
                                 f"complete(NAME, {self.comm()}, {status}, [&] {{ return {call}; }})")
            request = [("MPI_Request*", "request")]
            if self.is_duplication():
                name = self.name.replace("Comm_dup", "Comm_idup")
                call = f"mpi::{name.lower()}({', '.join(self.names)})"
            else:
                name = "I" + self.name[0].lower() + self.name[1:]
            yield self.entry(name + suffix, types + request,
                             f"start(NAME, {self.comm()}, request, [&] {{ return {call}; }})")
            if "p" in self.forms:
                info = [("MPI_Info", "")] if self.name not in ("Send", "Ssend", "Rsend", "Bsend", "Recv") else []
                kept = "".join(", " + capture for capture in self.kept())
                yield self.entry(f"{self.name}_init{suffix}", types + info + request,
                                 f"prepare(NAME, {self.comm()}, request, [=] {{ return [={kept}] {{ return {call}; }}; }})")

    def kept(self):
        """Captures of arrays, which are the program's."""
        for kind, name in self.parameters:
            own = {"const N*": "KeptNumbers", "const MPI_Datatype*": "KeptTypes"}.get(kind)
            if own is None:
                continue
            is_looked_at = "true"
            if "root" in self.names:
                is_looked_at = "Prepared(comm).rank() == Prepared(comm).root(root)"
            elif name.startswith("send_"):
                is_looked_at = "send != abi::kInPlace"
            yield f"{name} = {own}({name}, comm, {is_looked_at})"

    @staticmethod
    def entry(name, types, body):
        parameters = ", ".join(declare(kind, of) for kind, of in types)
        body = body.replace("NAME", f'"MPI_{name}"')
        return f"COHORT_MPI_ENTRY int MPI_{name}({parameters}) {{\n  return {body};\n}}\n"


def split_star(kind, name):
    """Of a pointer to arrays the name stands within: int (*ranges)[3]."""
    if name.startswith("(*"):
        return f"{kind} (*)[3]", name[2:].partition(")")[0]
    return kind, name


def declare(kind, name):
    return kind.replace("(*)", f"(*{name})") if "(*)" in kind else f"{kind} {name}".rstrip()


def outer(kind, is_large):
    number = "MPI_Count" if is_large else "int"
    address = "MPI_Count" if is_large else "MPI_Aint"
    return re.sub(r"\bA\b", address, re.sub(r"\bN\b", number, kind))


def inner(kind):
    for pattern, own in (("const [NA]\\*", "Numbers"), ("[NA]\\*", "NumberOut"), ("[NA]", "Number")):
        if re.fullmatch(pattern, kind):
            return own
    return kind


def read(path):
    functions, missing = [], []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("- "):
            reason, names = line[2:].split(": ")
            missing += [(name, reason) for name in names.split()]
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"{path}: not understood: {line}")
        functions.append(Function(**match.groupdict()))
    return functions, missing


def calls_of(functions):
    text = HEADER + "#pragma once\n\n#include <cohort/bindings/mpi/prepared.h>\n\nnamespace cohort::mpi {\n\n"
    for function in functions:
        declaration = function.declaration()
        match = re.search(r"int \(\*\)\[3\] (\w+)", declaration)
        if match:
            declaration = declaration.replace(match[0], f"int (*{match[1]})[3]")
        text += declaration + "\n"
    return text + "\n}  // namespace cohort::mpi\n"


def entries_of(functions, missing):
    text = HEADER + "#include <cohort/bindings/mpi/entry.h>\n#include <cohort_mpi/calls.h>\n\n"
    text += "using namespace cohort;\nusing namespace cohort::mpi;\n\n"
    for function in functions:
        text += "".join(function.entries())
    for name, reason in missing:
        text += f'COHORT_MPI_ENTRY int MPI_{name}() {{ return refuse_missing("MPI_{name}", "{reason}"); }}\n'
    return text


HANDLE = re.compile(r"MPI_(Comm|Datatype|Errhandler|Group|Info|Message|Op|Request|Win)")
HANDED = {"status": "StatusOut {0}_({0});", "requests": "HandlesOut {0}_(count, {0});", "statuses": "StatusesOut {0}_(count, {0});"}


def trampolined(function):
    """The entry of MPItrampoline, or why there is none."""
    types, made, given, before = [], [], [], []
    name = function.name
    more = [("MPI_Status*", "status")] if "s" in function.forms else []
    parameters = [(outer(kind, False), of) for kind, of in function.parameters] + more
    for kind, of in parameters:
        is_array_of_handles = kind.startswith("const MPI_Datatype")
        if "_function*" in kind or (is_array_of_handles and "count" not in function.names):
            return None
        made.append(kind)
        if HANDLE.fullmatch(kind):
            types.append(("Handle", of))
            given.append(f"static_cast<int>({of})")
        elif is_array_of_handles:
            types.append(("const Handle*", of))
            before.append(f"HandlesIn {of}_(count, {of});")
            given.append(f"{of}_")
        elif kind == "const MPI_Status*":
            types.append(("const Status*", of))
            given.append(f"&{of}->own")
        elif of in HANDED and kind.startswith("MPI_"):
            types.append(("Handle*" if of == "requests" else "Status*", of))
            before.append(HANDED[of].format(of))
            given.append(f"{of}_")
        elif HANDLE.fullmatch(kind.rstrip("*")):
            types.append(("Handle*", of))
            before.append(f"HandleOut {of}_({of});")
            given.append(f"{of}_")
        else:
            types.append((kind, of))
            given.append(of)
    declared = f'extern "C" int MPI_{name}({", ".join(kind for kind in made)});\n'
    listed = ", ".join(declare(kind, of) for kind, of in types)
    lines = [*before, f"return MPI_{name}({', '.join(given)});"]
    return declared + f"COHORT_MPI_ENTRY int MPIABI_{name}({listed}) {{\n  " + "\n  ".join(lines) + "\n}\n"


def variants(function):
    """Those of ints: as functions of their own, with all of their parameters."""
    if function.forms[0] in "fr" or function.is_duplication():
        yield function
        return
    if "b" in function.forms:
        yield function
    request = ", MPI_Request* request"
    parameters = ", ".join(f"{kind} {of}" for kind, of in function.parameters)
    yield Function("f", "I" + function.name[0].lower() + function.name[1:], parameters + request)
    if function.name in ("Send", "Ssend", "Rsend", "Bsend", "Recv"):
        yield Function("f", function.name + "_init", parameters + request)


def trampoline_of(functions, missing, interface):
    text = HEADER + "#include <cohort/bindings/mpi/trampoline/trampoline.h>\n\nusing namespace cohort::mpi::trampoline;\n\n"
    for line in interface.read_text().splitlines():
        if line.startswith("- "):
            reason, names = line[2:].split(": ")
            missing += [(name, reason) for name in names.split()]
        elif not line.startswith("#"):
            for constant in line.split():
                name, value = constant.split("=")
                text += f"COHORT_MPI_ENTRY const long MPIABI_{name} = {value};\n"
    for function in functions:
        for variant in variants(function):
            if variant.is_duplication():
                variant = Function("f", variant.name.replace("dup", "idup"),
                                   ", ".join(f"{kind} {of}" for kind, of in variant.parameters) + ", MPI_Request* request")
            entry = trampolined(variant)
            if entry is None:
                missing.append((variant.name, "functions of the program's, or lists of types, behind MPItrampoline"))
            else:
                text += entry
    for name, reason in missing:
        text += f'COHORT_MPI_ENTRY int MPIABI_{name}() {{ return refuse_missing("MPI_{name}", "{reason}"); }}\n'
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("functions", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--trampoline", type=pathlib.Path, metavar="INTERFACE")
    arguments = parser.parse_args()
    functions, missing = read(arguments.functions)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.trampoline:
        text = trampoline_of(functions, missing, arguments.trampoline)
        (arguments.folder / "trampoline.cpp").write_text(text)
        return
    (arguments.folder / "calls.h").write_text(calls_of(functions))
    (arguments.folder / "entries.cpp").write_text(entries_of(functions, missing))


if __name__ == "__main__":
    main()
