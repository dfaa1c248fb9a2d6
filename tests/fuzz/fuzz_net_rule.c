/* The first byte says what the rule is for; what is read prints and parses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "spec/net_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_(net_rule) struct net_rule a = { .protos = 0 };
	auto_(net_rule) struct net_rule b = { .protos = 0 };
	auto_(buf) struct buf once = BUF_INIT, twice = BUF_INIT;
	struct error err = ERROR_INIT;
	auto_free char *text = NULL;
	enum net_rule_use use;

	if (!size)
		return 0;
	use = (enum net_rule_use)(data[0] % 4);
	text = strndup((const char *)data + 1, size - 1);
	if (net_rule_parse(text, use, &a, &err) < 0) {
		if (a.name || a.prefixes || a.ports || err.kind == ERR_NONE)
			abort();
		return 0;
	}
	net_rule_format(&a, use, &once);
	if (net_rule_parse(buf_str(&once), use, &b, &err) < 0)
		abort();
	net_rule_format(&b, use, &twice);
	if (strcmp(buf_str(&once), buf_str(&twice)) != 0)
		abort();
	return 0;
}
