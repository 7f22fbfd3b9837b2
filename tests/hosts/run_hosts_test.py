#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cohort run --hosts` over a real ssh between hosts that are namespaces."""

import pathlib
import re
import secrets
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, RUNNER, Hosts

BENCH = (COMMAND, "bench", "all_reduce", "--sizes", "8,64K", "--iters", "3")


class RunOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require_ssh()
        cls.hosts = Hosts(3)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        cls.hosts.serve_ssh()

    def run_on(self, *arguments, environment=None, timeout=60):
        return self.hosts.outcome(1, RUNNER, *arguments, environment=environment, timeout=timeout)

    def start_on(self, *arguments):
        return self.hosts.start(1, RUNNER, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def marked(self, seconds=600):
        """A script that can be found among processes."""
        mark = f"mark-{secrets.token_hex(8)}"
        return mark, ("sh", "-c", f"echo here; sleep {seconds} # {mark}\n true")

    def wait_until_none(self, mark):
        until = time.monotonic() + hosts_of_test.PATIENCE_S
        while self.hosts.processes_with(mark):
            self.assertLess(time.monotonic(), until, f"{mark} still runs")
            time.sleep(0.05)

    def wait_for_lines(self, process, count):
        return [process.stdout.readline() for _ in range(count)]

    def test_ranks_are_numbered_host_after_host_and_know_their_place(self):
        done = self.run_on("--hosts", "host1,host2:2,host3", "--", "sh", "-c",
                           "echo $(hostname) $COHORT_RANK/$COHORT_SIZE $COHORT_LOCAL_RANK/$COHORT_LOCAL_SIZE $COHORT_ADDR")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        places = [line.rsplit(" ", 1)[0] for line in lines]
        self.assertEqual(places, ["[0] host1 0/4 0/1", "[1] host2 1/4 0/2", "[2] host2 2/4 1/2", "[3] host3 3/4 0/1"])
        addresses = {line.rsplit(" ", 1)[1] for line in lines}
        self.assertEqual(len(addresses), 1, addresses)
        self.assertRegex(addresses.pop(), rf"^{re.escape(self.hosts.address(1))}:\d+$")

    def test_a_job_meets_and_its_first_host_may_be_another_than_the_launchers(self):
        for hosts in ("host1,host2:2", "host2,host3", "host3:2"):
            done = self.run_on("--hosts", hosts, "--no-prefix", "--", *BENCH)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("# cohort all_reduce"), 1, done.stdout)

    def test_a_host_file_says_how_many_and_n_takes_fewer(self):
        file = self.hosts.folder / "hostfile"
        file.write_text("# two lines\nhost1 slots=2\n\nhost[2-3]:2  # both\n")
        done = self.run_on("--hostfile", file, "-n", "3", "--", "sh", "-c", "echo $(hostname)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")[:-1]), ["[0] host1", "[1] host1", "[2] host2"])

    def test_programs_written_for_torchrun_find_one_master(self):
        script = ("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT; "
                  "[ ${COHORT_ADDR%:*} = $MASTER_ADDR ] && [ ${COHORT_ADDR##*:} != $MASTER_PORT ]")
        for ports in (None, "5100-5101"):
            done = self.run_on("--hosts", "host2,host3:2", "--no-prefix", "--", "sh", "-c", script,
                               environment={} if ports is None else {"COHORT_PORT_RANGE": ports})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lines = sorted(line.split() for line in done.stdout.splitlines())
            self.assertEqual([line[:2] for line in lines], [["0/3", "0/1"], ["1/3", "0/2"], ["2/3", "1/2"]])
            self.assertEqual(len({tuple(line[2:]) for line in lines}), 1, lines)
            self.assertIn(int(lines[0][3]), range(20000, 29400) if ports is None else range(5100, 5102))

    def test_variables_reach_the_other_hosts_and_the_secret_is_in_none_of_them(self):
        script = ("echo [$COHORT_TIMEOUT] [$OMP_NUM_THREADS] [$SPACES]; env; tr '\\0' '\\n' </proc/$PPID/cmdline; "
                  "od -v -An -tx1 /proc/self/fd/$COHORT_SECRET_FD | tr -d ' \\n'")
        done = self.run_on("--hosts", "host2", "-x", "OMP_NUM_THREADS", "-x", "SPACES=a 'b' \"c\" é", "--no-prefix", "--", "sh",
                           "-c", script, environment={"COHORT_TIMEOUT": "77", "OMP_NUM_THREADS": "3"})
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "[77] [3] [a 'b' \"c\" é]")
        secret = lines[-1]
        self.assertRegex(secret, "^[0-9a-f]{64}$")
        self.assertEqual(done.stdout.count(secret), 1, "the secret is in the environment or in a command line")

    def test_a_rank_that_fails_ends_the_job_on_all_hosts_with_its_status(self):
        mark, script = self.marked()
        body = f"if [ $COHORT_RANK = 1 ]; then exit 7; fi; sleep 600 # {mark}\n true"
        done = self.run_on("--hosts", "host1,host2,host3", "--", "sh", "-c", body)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, r"cohort: rank 1 \(process \d+ on host2\) exited with status 7\n")
        self.wait_until_none(mark)

    def test_a_rank_that_is_killed_is_named_with_its_host(self):
        done = self.run_on("--hosts", "host2,host3", "--", "sh", "-c", "[ $COHORT_RANK = 0 ] || kill -9 $$; sleep 600")
        self.assertEqual(done.returncode, 128 + 9, done.stderr)
        self.assertRegex(done.stderr, r"rank 1 \(process \d+ on host3\) was killed by SIGKILL")

    def test_keep_going_succeeds_if_any_rank_does(self):
        done = self.run_on("--hosts", "host2,host3", "--keep-going", "--", "sh", "-c", "exit $COHORT_RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"rank 1 \(process \d+ on host3\) exited with status 1")

    def test_an_interrupt_reaches_every_rank(self):
        mark, _ = self.marked()
        body = f"trap 'echo interrupted; exit 3' INT; echo here; while :; do sleep 0.05; done # {mark}"
        job = self.start_on("--hosts", "host2,host3:2", "--", "sh", "-c", body)
        self.wait_for_lines(job, 3)
        job.send_signal(signal.SIGINT)
        output, errors = job.communicate(timeout=hosts_of_test.PATIENCE_S)
        self.assertEqual(job.returncode, 130, errors)
        self.assertEqual(output.count("interrupted"), 3, output + errors)
        self.assertIn("cohort: SIGINT: ending the ranks on host2, host3\n", errors)
        self.wait_until_none(mark)

    def test_interrupts_end_a_job_whose_output_nobody_reads(self):
        for count in (1, 2):
            mark, _ = self.marked()
            job = self.start_on("--hosts", "host2,host3", "--", "sh", "-c", f"yes output # {mark}")
            self.wait_for_lines(job, 1)
            for _ in range(count):
                job.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(timeout=hosts_of_test.PATIENCE_S), 130)
            job.stdout.close()
            job.stderr.close()
            self.wait_until_none(mark)

    def test_a_login_may_print_a_line_that_it_does_not_end(self):
        shell = self.hosts.folder / "talkative_shell"
        shell.write_text('#!/bin/sh\nprintf "Welcome, "\nexec ssh "$@"\n')
        shell.chmod(0o755)
        done = self.run_on("--hosts", "host2,host3", "--rsh", shell, "--", "sh", "-c", "echo $COHORT_RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 0", "[1] 1"])

    def test_ranks_that_do_not_heed_it_are_killed(self):
        mark, _ = self.marked()
        body = f"trap '' INT TERM; echo here; while :; do sleep 0.05; done # {mark}"
        job = self.start_on("--hosts", "host2,host3", "--", "sh", "-c", body)
        self.wait_for_lines(job, 2)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=hosts_of_test.PATIENCE_S)
        self.assertEqual(job.returncode, 143)
        self.wait_until_none(mark)

    def test_ranks_end_with_a_launcher_that_is_killed(self):
        mark, script = self.marked()
        job = self.start_on("--hosts", "host2,host3:2", "--", *script)
        self.wait_for_lines(job, 3)
        job.kill()
        job.communicate(timeout=hosts_of_test.PATIENCE_S)
        self.wait_until_none(mark)

    def test_ranks_end_with_an_agent_that_is_killed_and_the_job_with_them(self):
        mark, script = self.marked()
        job = self.start_on("--hosts", "host2,host3", "--", *script)
        self.wait_for_lines(job, 2)
        agents = self.hosts.processes_with("--agent")
        agents = [one for one in agents if pathlib.Path(f"/proc/{one}/comm").read_text().startswith("cohort-run")]
        self.assertEqual(len(agents), 2)
        subprocess.run(["kill", "-9", str(agents[0])], check=True)
        _, errors = job.communicate(timeout=hosts_of_test.PATIENCE_S)
        self.assertNotEqual(job.returncode, 0, errors)
        self.wait_until_none(mark)

    def test_a_host_that_cannot_be_reached_is_named_and_nothing_runs(self):
        mark, script = self.marked()
        self.hosts.run(0, "ip", "link", "set", "p3eth0", "down")
        try:
            done = self.run_on("--hosts", "host1,host3", "--rsh", "ssh -o BatchMode=yes -o ConnectTimeout=2", "--", *script)
        finally:
            self.hosts.run(0, "ip", "link", "set", "p3eth0", "up")
        self.assertEqual(done.returncode, 255, done.stderr)
        self.assertIn("cohort: host3 cannot be reached: `ssh host3 true` has to work", done.stderr)
        self.assertRegex(done.stderr, "host3: ssh: connect to host host3 port 22: ")
        self.assertEqual(done.stdout, "")
        self.wait_until_none(mark)

    def test_a_wrong_name_is_told(self):
        done = self.run_on("--hosts", "host1,nosuchhost", "--", "true")
        self.assertEqual(done.returncode, 255, done.stderr)
        self.assertRegex(done.stderr, "nosuchhost: ssh: Could not resolve hostname nosuchhost")
        self.assertIn("nosuchhost cannot be reached", done.stderr)

    def test_cohort_that_is_not_there_is_told(self):
        done = self.run_on("--hosts", "host1,host2", "--agent-program", "/nowhere/cohort-run", "--", "true")
        self.assertEqual(done.returncode, 127, done.stderr)
        self.assertRegex(done.stderr, "'/nowhere/cohort-run' cannot be started on host[12]: install cohort there")

    def test_a_program_or_a_directory_that_is_not_there_is_told(self):
        done = self.run_on("--hosts", "host1,host2", "--", "/nowhere/program")
        self.assertEqual(done.returncode, 127, done.stderr)
        self.assertIn("'/nowhere/program' cannot be started", done.stderr)
        done = self.run_on("--hosts", "host2", "--directory", "/nowhere", "--", "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the directory '/nowhere' cannot be entered on host2", done.stderr)

    def test_lists_that_are_none_are_refused(self):
        for hosts, words in (("host[1", "']' is missing"), ("host1:0", "'host1:0': '0' is no number of ranks, from 1 to"),
                             ("-oProxyCommand=x", "no name of a host"), ("fe80::1", "needs brackets")):
            done = self.run_on(f"--hosts={hosts}", "--", "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        done = self.run_on("--hosts", "host1:2", "-n", "3", "--", "true")
        self.assertIn("3 ranks on 1 hosts with 2 slots", done.stderr)

    def test_a_connection_that_is_cut_ends_ranks_and_job(self):
        mark, script = self.marked()
        job = self.start_on("--hosts", "host1,host2", "--rsh",
                            "ssh -o BatchMode=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=2", "--", *script)
        self.wait_for_lines(job, 2)
        self.hosts.run(0, "ip", "link", "set", "p2eth0", "down")
        try:
            _, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 255, errors)
            self.assertIn("the connection to host2 was lost", errors)
            until = time.monotonic() + 60
            while self.hosts.processes_with(mark):
                self.assertLess(time.monotonic(), until, "the ranks of host2 still run")
                time.sleep(0.1)
        finally:
            self.hosts.run(0, "ip", "link", "set", "p2eth0", "up")


if __name__ == "__main__":
    unittest.main(verbosity=2)
