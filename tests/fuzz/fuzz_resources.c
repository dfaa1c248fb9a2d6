/* The resources of `update`. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_PTR(struct spec_resources, spec_resources_free);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_ptr(spec_resources_free) struct spec_resources *r = NULL;
	struct error err = ERROR_INIT;

	if (spec_resources_parse((const char *)data, size, NULL, &r, &err) <
	    0) {
		if (r || err.kind == ERR_NONE)
			abort();
		return 0;
	}
	for (size_t i = 0; i < r->n_devices; i++)
		if (!strchr("abc", r->devices[i].type))
			abort();
	for (size_t i = 0; i < r->n_unified; i++)
		if (strchr(r->unified[i].key, '/'))
			abort();
	return 0;
}
