# SPDX-License-Identifier: Apache-2.0
"""Where a process group's rank 0 listens, in network namespaces in which this host has addresses of the test's."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

PATH = pathlib.Path(__file__).parents[3] / "bindings" / "python" / "cohort" / "_meeting.py"


def load():
    spec = importlib.util.spec_from_file_location("meeting", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


meeting = load()


def place_on_host(own, master):
    """What place() says on a host of that address; None where there are no namespaces."""
    program = f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("meeting", {str(PATH)!r})
        meeting = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(meeting)
        print(meeting.place(is_one_host=False))
    """
    script = f"ip link set lo up && ip addr add {own}/24 dev lo && exec {sys.executable} -c '{textwrap.dedent(program)}'"
    script = script.replace("'" + str(PATH) + "'", f'"{PATH}"')
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "MASTER_ADDR": master, "MASTER_PORT": "29500"})
    return done.stdout.strip() if done.returncode == 0 else None


class MeetingTest(unittest.TestCase):
    def test_a_group_whose_rank_0_is_elsewhere_than_the_master_meets_at_its_own_address(self):
        place = place_on_host("10.1.2.3", "10.1.2.9")
        if place is None:
            self.skipTest("no network namespaces here")
        self.assertRegex(place, r"^10\.1\.2\.3:\d+ [0-9a-f]{64}$")

    def test_at_the_masters_host_the_group_meets_at_the_master(self):
        place = place_on_host("10.1.2.3", "10.1.2.3")
        if place is None:
            self.skipTest("no network namespaces here")
        self.assertRegex(place, r"^10\.1\.2\.3:\d+ ")
        with mock.patch.object(meeting, "own_address_toward", return_value="127.0.1.1"):
            self.assertEqual(meeting.listening_host("node1", 1), "node1")

    def test_what_does_not_resolve_is_said_as_it_is(self):
        with mock.patch.object(meeting.socket, "getaddrinfo", side_effect=OSError):
            self.assertEqual(meeting.listening_host("node1", 1), "node1")

    def test_an_address_of_version_6_has_brackets(self):
        with mock.patch.object(meeting, "own_address_toward", return_value="2001:db8::3"):
            self.assertEqual(meeting.listening_host("node1", 1), "[2001:db8::3]")

    def test_where_no_master_is_known_rank_0_is_where_the_others_reached_it(self):
        for address, expected in (("127.0.0.1:29400", "127.0.0.1"), ("[::1]:29400", "::1"),
                                  ("unix:name", meeting.socket.gethostname()), ("", meeting.socket.gethostname())):
            with mock.patch.dict(os.environ, {"COHORT_ADDR": address}), \
                    mock.patch.object(meeting, "own_address_toward", return_value="127.0.0.1"):
                self.assertEqual(meeting.own_host(), expected)
        with mock.patch.dict(os.environ, {"COHORT_ADDR": "node1:29400"}), \
                mock.patch.object(meeting, "own_address_toward", return_value="2001:db8::3"):
            self.assertEqual(meeting.own_host(), "2001:db8::3")

    def test_no_secret_is_in_the_store_where_the_ranks_have_one(self):
        variables = {"MASTER_ADDR": "127.0.0.1", "COHORT_SECRET_FILE": "/nowhere/secret"}
        with mock.patch.dict(os.environ, variables):
            self.assertRegex(meeting.place(is_one_host=False), r"^127\.0\.0\.1:\d+ $")
        with mock.patch.dict(os.environ, {"MASTER_ADDR": "127.0.0.1"}, clear=True):
            self.assertRegex(meeting.place(is_one_host=False), r"^127\.0\.0\.1:\d+ [0-9a-f]{64}$")

    def test_machines_of_one_image_are_other_hosts(self):
        told = []
        for machine in ("a", "a", "b", None):
            with mock.patch.dict(os.environ, {} if machine is None else {"COHORT_MACHINE_ID": machine}, clear=True):
                told.append(meeting.host())
        self.assertEqual(told[0], told[1])
        self.assertEqual(len(set(told)), 3)

    def test_ranks_of_one_host_meet_at_a_unix_address(self):
        self.assertRegex(meeting.place(is_one_host=True), r"^unix:cohort-\d+-torch-[0-9a-f]{32} $")


if __name__ == "__main__":
    unittest.main()
