// SPDX-License-Identifier: Apache-2.0
// error: cohort needs C++20: give the compiler -std=c++20
// standard: c++17
#include <cohort/cohort.h>

int main() { return 0; }
