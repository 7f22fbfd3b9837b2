// SPDX-License-Identifier: Apache-2.0

int part();
int part() { return 0; }
