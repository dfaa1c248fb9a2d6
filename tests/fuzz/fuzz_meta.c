/* meta.json of a branch: what is accepted and written again reads the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "branch/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_(meta) struct branch_meta first = { 0 };
	auto_(meta) struct branch_meta second = { 0 };
	auto_(buf) struct buf a = BUF_INIT;
	auto_(buf) struct buf b = BUF_INIT;

	if (meta_parse((const char *)data, size, "fuzz", &first, NULL) < 0)
		return 0;
	if (meta_format(&first, &a) < 0 ||
	    meta_parse(a.data, a.len, "fuzz", &second, NULL) < 0 ||
	    meta_format(&second, &b) < 0)
		abort();
	if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0)
		abort();
	return 0;
}
