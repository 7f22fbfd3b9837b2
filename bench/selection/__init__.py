# SPDX-License-Identifier: Apache-2.0
"""Holds the algorithm that cohort selects against every other that could run; bench/README.md says how."""
