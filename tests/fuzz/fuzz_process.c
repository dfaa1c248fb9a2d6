/* process.json, and the small texts of the command line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_PTR(struct spec_process, spec_process_free);

static void parse_words(const char *text)
{
	bool has_gid = false;
	uid_t uid = 1;
	gid_t gid = 1;
	int sig = spec_signal_parse(text);

	if (sig != -EINVAL && (sig < 1 || sig > 64))
		abort();
	if (spec_user_parse(text, &uid, &has_gid, &gid, NULL) == 0 &&
	    (*text < '0' || *text > '9'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_ptr(spec_process_free) struct spec_process *p = NULL;
	auto_ptr(spec_process_free) struct spec_process *copy = NULL;
	auto_free char *text = strndup((const char *)data, size);
	struct error err = ERROR_INIT;

	if (!text)
		return 0;
	parse_words(text);
	if (spec_process_parse((const char *)data, size, NULL, &p, &err) < 0) {
		if (p || err.kind == ERR_NONE)
			abort();
		return 0;
	}
	if (spec_process_copy(p, &copy) < 0)
		abort();
	return 0;
}
