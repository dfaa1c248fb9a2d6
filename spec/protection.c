#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/request.h"

/* clang-format off */
static const struct {
	const char *name;
	int abi;
	const char *kernel;
} rows[PROTECT_COUNT] = {
	[PROTECT_FS_REFER]            = { "fs-refer",            2, "5.19" },
	[PROTECT_FS_TRUNCATE]         = { "fs-truncate",         3, "6.2"  },
	[PROTECT_NET_TCP]             = { "net-tcp",             4, "6.7"  },
	[PROTECT_FS_IOCTL_DEV]        = { "fs-ioctl-dev",        5, "6.10" },
	[PROTECT_SIGNAL_SCOPE]        = { "signal-scope",        6, "6.12" },
	[PROTECT_ABSTRACT_UNIX_SCOPE] = { "abstract-unix-scope", 6, "6.12" },
};
/* clang-format on */

int protection_parse(const char *text, enum protection *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(text, rows[i].name) == 0) {
			*ret = (enum protection)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *protection_name(enum protection p)
{
	return rows[p].name;
}

int protection_abi(enum protection p)
{
	return rows[p].abi;
}

const char *protection_kernel(enum protection p)
{
	return rows[p].kernel;
}
