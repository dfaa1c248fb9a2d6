/* What a supervisor says of changes: whole records, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "embed/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char lower[] = "/lower", upper[] = "/upper";
	const struct root roots[] = { { lower, upper } };
	struct sandlock_report r = { .n_changes = 0 };
	size_t n = 0;

	if (report_add(&r, roots, 1, (const char *)data, size) == 0) {
		n = r.n_changes;
		for (size_t i = 0; i < n; i++)
			if (!r.changes[i].path || r.changes[i].root != lower)
				abort();
		/* A message is added to those before it. */
		if (report_add(&r, roots, 1, (const char *)data, size) < 0 ||
		    r.n_changes != 2 * n)
			abort();
	}
	report_clear(&r);
	return 0;
}
