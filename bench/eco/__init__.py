# SPDX-License-Identifier: Apache-2.0
"""What cohort is worth to programs in Python, beside gloo and MPI."""
