#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that answer, fail, hang and leave children behind: scripts in place of the real ones."""

import io
import contextlib
import os
import pathlib
import tempfile
import time
import unittest

import support
from suite import options as command_line
from suite.process import Failed, Process
from suite.progress import Progress
from suite.results import Results
from suite.session import Session, plan_cells, plan_launches

GLOO = """#!/bin/sh
echo "$@" >> "$COUNT"
for size in 8 4096; do
  case "$size $*" in "4096 "*4096* | "8 "*) ;; *) continue ;; esac
  {more}
  echo "gloo,tcp,all_reduce,2,$size,1,2,3,5,130,130"
done
"""
COHORT = """#!/bin/sh
echo peer,transport
echo "cohort,tcp,all_reduce,2,8,1,1,3,5,130,130"
echo "cohort,tcp,all_reduce,2,4096,1,1,3,5,130,130"
"""


def shell(script, timeout_s=20.0):
    return Process(["/bin/sh", "-c", script], {}, timeout_s)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Processes(unittest.TestCase):
    def test_lines_come_as_they_are_printed(self):
        with shell("echo one; echo two >&2; printf three; printf 'and four\\n'") as process:
            self.assertEqual(list(process), ["one", "threeand four"])

    def test_a_failure_is_told_in_the_programs_words(self):
        with self.assertRaisesRegex(Failed, "status 3: no such thing"), shell("echo no such thing >&2; exit 3") as process:
            list(process)

    def test_a_program_that_is_not_there_is_no_crash(self):
        with self.assertRaisesRegex(Failed, "no such|No such"):
            Process(["/nowhere/at/all"], {}, 1)

    def test_one_that_hangs_is_ended_with_what_left_its_group(self):
        lines = []
        with self.assertRaisesRegex(Failed, "no answer within 1 s"):
            with shell("trap '' TERM; setsid sleep 600 & echo $!; echo $$; sleep 600", 1.0) as process:
                for line in process:
                    lines.append(int(line))
        self.assertEqual(len(lines), 2)
        for _ in range(100):
            if not any(map(is_alive, lines)):
                break
            time.sleep(0.05)
        self.assertEqual([pid for pid in lines if is_alive(pid)], [])

    def test_leaving_early_ends_it_too(self):
        with self.assertRaises(KeyboardInterrupt), shell("echo $$; sleep 600") as process:
            for line in process:
                pid = int(line)
                raise KeyboardInterrupt
        self.assertFalse(is_alive(pid))


class Sessions(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.bin = pathlib.Path(self._folder.name)
        self.count = self.bin / "count"
        os.environ["COUNT"] = str(self.count)

    def put(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run_session(self, *arguments, gloo="", limits="#!/bin/sh\nexit 1\n"):
        self.put("limits", limits)
        self.put("cohort", COHORT)
        self.put("peer_gloo", GLOO.format(more=gloo))
        options = command_line.parse(["--bin", str(self.bin), "--programs", "gloo/tcp,cohort/tcp", "--operators",
                                      "all_reduce", "--ranks", "2", "--sizes", "8,4K", "--rounds", "3", *arguments])
        programs = command_line.choose_programs(options)
        results = Results(programs, plan_cells(options), 2, support.CACHE_BYTES)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            Session(options, results, Progress()).run()
        self.errors = errors.getvalue()
        return results

    def launches(self):
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def test_every_round_gives_a_row(self):
        results = self.run_session()
        self.assertEqual(results.rounds, 3)
        self.assertEqual(self.launches(), 3)
        self.assertEqual(sorted(r.round for r in results.all_rows() if r.program == "gloo/tcp"), [1, 1, 2, 2, 3, 3])
        self.assertEqual([entry.times_faster for entry in results.entries()], [2, 2])
        self.assertIn("no lower bounds", self.errors)

    def test_rows_before_a_hang_are_kept_and_what_hung_is_not_tried_again(self):
        results = self.run_session("--timeout", "1", gloo="[ $size = 4096 ] && sleep 600")
        hung = support.cell(size=4096, transport="tcp")
        self.assertEqual(results.missing, {("gloo/tcp", hung): "no answer within 1 s"})
        self.assertEqual(results.hung, {("gloo/tcp", hung)})
        self.assertEqual(self.count.read_text().count("4096"), 1)
        self.assertEqual(self.launches(), 3)

    def test_a_peer_that_fails_does_not_stop_the_others(self):
        results = self.run_session(gloo="echo out of luck >&2; exit 7")
        self.assertEqual(set(results.missing.values()), {"status 7: out of luck"})
        self.assertEqual(len(list(results.all_rows())), 6)

    def test_when_the_time_is_over_the_rest_says_so(self):
        results = self.run_session("--minutes", "0.0001")
        self.assertEqual(self.launches(), 0)
        self.assertEqual(len(results.missing), 4)
        self.assertEqual({reason for reason in results.missing.values()}, {"the time was over (--minutes)"})


class Plans(unittest.TestCase):
    def test_programs_follow_each_other_and_a_ping_pong_has_two_ranks(self):
        options = command_line.parse(["--operators", "all_reduce,send_recv", "--ranks", "2,4", "--programs",
                                      "openmpi/shm,cohort/shm"])
        launches = list(plan_launches(options, command_line.choose_programs(options)))
        self.assertEqual([(l.program.name, l.operators, l.ranks) for l in launches],
                         [("openmpi/shm", ("all_reduce",), 2), ("cohort/shm", ("all_reduce",), 2),
                          ("openmpi/shm", ("all_reduce",), 4), ("cohort/shm", ("all_reduce",), 4),
                          ("openmpi/shm", ("send_recv",), 2), ("cohort/shm", ("send_recv",), 2)])
        self.assertEqual({c.ranks for c in plan_cells(options) if c.operator == "send_recv"}, {2})


if __name__ == "__main__":
    unittest.main()
