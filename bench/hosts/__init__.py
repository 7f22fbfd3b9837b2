# SPDX-License-Identifier: Apache-2.0
"""RDMA beside perftest and Open MPI over UCX, in a guest; bench/README.md says how."""
