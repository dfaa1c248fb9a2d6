/* What is read and written again reads the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_PTR(struct json, json_free);

static void write_tree(const struct json *j, bool pretty, struct buf *b)
{
	struct json_out *o = json_out_new(pretty);

	json_out_value(o, j);
	if (json_out_end(o, b) < 0)
		abort();
	json_out_free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct json_limits limits = { 1 << 20, 64, 10000 };
	static const struct json_limits again = { 16 << 20, 64, 10000 };
	auto_ptr(json_free) struct json *first = NULL;
	auto_ptr(json_free) struct json *second = NULL;
	auto_(buf) struct buf pretty = BUF_INIT;
	auto_(buf) struct buf a = BUF_INIT;
	auto_(buf) struct buf b = BUF_INIT;

	if (json_parse((const char *)data, size, &limits, "fuzz", &first,
		       NULL) < 0)
		return 0;
	write_tree(first, true, &pretty);
	write_tree(first, false, &a);
	if (json_parse(pretty.data, pretty.len, &again, "fuzz", &second, NULL) <
	    0)
		abort();
	write_tree(second, false, &b);
	if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0)
		abort();
	return 0;
}
