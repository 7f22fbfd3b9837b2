# SPDX-License-Identifier: Apache-2.0
"""Which algorithm wins on thousands of simulated ranks; bench/README.md says how."""
