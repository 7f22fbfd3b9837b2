# SPDX-License-Identifier: Apache-2.0
"""cohort.graph under the name that programs written for graph engines import."""

from cohort.graph import *  # noqa: F401,F403: all of it
