#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures are well-formed, show what was measured, and the report needs nothing but itself."""

import argparse
import re
import unittest
import xml.etree.ElementTree as xml

from support import LIMITS, cell, results_of, row
from suite import report
from suite.cells import Missing
from suite.svg import Axis, LogScale, Series, heat_map, line_chart, shade

SVG = "{http://www.w3.org/2000/svg}"


def describe(name, x, y):
    return f"{name} <{x}> & {y}"


def chart(*series):
    return xml.fromstring(line_chart("a < b & c", Axis("bytes"), Axis("us"), series, describe))


class Pictures(unittest.TestCase):
    def test_every_series_is_a_line_and_every_point_says_what_it_is(self):
        root = chart(Series("one", "#111", ((1, 10), (100, 20))), Series("two", "#222", ((1, 5),), "2 2"),
                     Series("none", "#333", ()))
        self.assertEqual(len(root.findall(f"{SVG}polyline")), 2)
        self.assertEqual([c.find(f"{SVG}title").text for c in root.findall(f"{SVG}circle")],
                         ["one <1> & 10", "one <100> & 20", "two <1> & 5"])

    def test_points_lie_inside_and_larger_is_higher(self):
        root = chart(Series("one", "#111", ((1, 0.002), (1e6, 7000))))
        first, last = [[float(c.get(k)) for k in ("cx", "cy")] for c in root.findall(f"{SVG}circle")]
        self.assertLess(first[0], last[0])
        self.assertGreater(first[1], last[1])
        for x, y in (first, last):
            self.assertTrue(0 < x < float(root.get("width")) and 0 < y < float(root.get("height")))

    def test_nothing_measured_is_said(self):
        self.assertIn("nothing was measured", "".join(chart().itertext()))

    def test_one_point_is_a_picture_too(self):
        self.assertEqual(len(chart(Series("one", "#111", ((8, 1.0),))).findall(f"{SVG}circle")), 1)
        self.assertEqual(LogScale(1, 100, 0, 10)(10), 5)

    def test_a_heat_map_leaves_empty_what_is_missing(self):
        root = xml.fromstring(heat_map("ratios", ["8", "4K"], [("all_reduce, 2", [1.5, None], ["a < b", "none"])]))
        fields = root.findall(f"{SVG}g")
        self.assertEqual([field.find(f"{SVG}title").text for field in fields], ["a < b", "none"])
        self.assertEqual([field.find(f"{SVG}text").text for field in fields], ["1.50", None])

    def test_shades_tell_faster_from_slower(self):
        self.assertEqual(shade(1), "rgb(255,255,255)")
        self.assertEqual(shade(100), shade(4))
        self.assertTrue(shade(0.5).startswith("rgb(255,"))


class Page(unittest.TestCase):
    def setUp(self):
        cells = [cell(size=size) for size in (8, 4096)] + [cell("barrier", 2, 0), cell("barrier", 4, 0)]
        rows = [row(name, one, us) for one in cells for name, us in (("openmpi/shm", 2), ("cohort/shm", 1.9))]
        self.results = results_of(rows, LIMITS)
        self.results.add_missing(Missing("mpich/shm", cells[0], "<it> broke & fell"))
        options = argparse.Namespace(operators=["all_reduce", "barrier"], transports=["shm"], cores=2)
        self.text = "\n".join(report.page(self.results, options, 90))

    def test_pictures_are_well_formed_and_of_every_operator(self):
        pictures = re.findall(r"<svg xmlns.*?</svg>", self.text, re.DOTALL)
        titles = [xml.fromstring(picture).find(f"{SVG}title").text for picture in pictures]
        for wanted in ("all_reduce, 2 ranks, shm: latency", "all_reduce, 2 ranks, shm: bus bandwidth",
                       "barrier, shm: latency", "best peer / cohort/shm", "limit / cohort/shm"):
            self.assertIn(wanted, titles)

    def test_it_says_what_is_short_and_what_is_missing(self):
        self.assertIn("Short of target", self.text)
        self.assertRegex(self.text, r"(?s)bounded by.*<p>\d: .*Tried: ")
        self.assertIn("&lt;it&gt; broke &amp; fell", self.text)

    def test_it_loads_nothing(self):
        self.assertIsNone(re.search(r"<script|<link|src=|url\(", self.text))
        self.assertEqual(set(re.findall(r"https?://[^'\"]*", self.text)), {"http://www.w3.org/2000/svg"})


if __name__ == "__main__":
    unittest.main()
