/* Any bytes are read or refused; what was read has sane places. */
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/limits.h"
#include "spec/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Depth is bounded by the reader. */
static size_t count(const struct toml *t, size_t depth)
{
	size_t n = 1;

	if (depth > LIMIT_TOML_DEPTH + 1 || !t->at.line || !t->at.column)
		abort();
	for (size_t i = 0; i < t->n; i++)
		n += count(t->items[i], depth + 1);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_ptr(toml_free) struct toml *t = NULL;
	struct error err = ERROR_INIT;

	if (toml_parse((const char *)data, size, "fuzz", &t, &err) < 0) {
		if (t || err.kind == ERR_NONE)
			abort();
		return 0;
	}
	if (count(t, 0) > LIMIT_TOML_VALUES + 1)
		abort();
	return 0;
}
