/*
 * Kernel constants that the headers of the build host may lack. What the
 * running kernel can do is probed, never concluded from here.
 */
#ifndef SANDLOCK_BASE_UAPI_H
#define SANDLOCK_BASE_UAPI_H

#include <linux/openat2.h>
#include <linux/types.h>
#include <sys/syscall.h>

#endif
