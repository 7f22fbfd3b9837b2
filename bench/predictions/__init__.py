# SPDX-License-Identifier: Apache-2.0
"""Holds what `cohort sim` predicts against what `cohort bench` measures; bench/README.md says how."""
