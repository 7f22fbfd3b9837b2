// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <acl/acl_base.h>
#include <acl/acl_rt.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Once in a process, before everything else. A file of settings, if one is named, is not read.
aclError aclInit(const char* configPath);
/// Waits for what all streams were given. Afterwards aclInit() may be called again.
aclError aclFinalize(void);

#ifdef __cplusplus
}
#endif
