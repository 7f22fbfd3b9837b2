# SPDX-License-Identifier: Apache-2.0
"""The suite of `./run bench`: cohort and other collective libraries in turn on this machine. See bench/README.md."""
