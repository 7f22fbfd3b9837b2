# SPDX-License-Identifier: Apache-2.0
"""The package `cohort` under the name that programs written for hcomm import."""

from cohort import *  # noqa: F401,F403: all of it
from cohort import __version__  # noqa: F401
