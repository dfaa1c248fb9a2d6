#include <string.h>

#include "base/json.h"
#include "cmd.h"

/* "8080 -> 41234", one a line. */
static int print_lines(struct ctx *ctx, const struct json *ports)
{
	for (size_t i = 0; i < ports->n; i++)
		(void)printf("%s -> %s\n", ports->keys[i],
			     ports->items[i].type == JSON_NUMBER
				     ? ports->items[i].text
				     : "?");
	return cmd_flush(ctx);
}

int cmd_ports(struct ctx *ctx, struct args *args)
{
	static const struct json_limits limits = { 65536, 8, 8192 };
	struct sandlock_error err = { 0 };
	struct json *ports = NULL;
	auto_free char *text = NULL;
	int r;

	if (sandlock_ports(&ctx->env, args->operands[0], &text, &err) < 0)
		return cmd_fail(ctx, &err);
	if (args_json(args) || json_parse(text, strlen(text), &limits, "answer",
					  &ports, NULL) < 0) {
		(void)fputs(text, stdout);
		return cmd_flush(ctx);
	}
	r = print_lines(ctx, ports);
	json_free(ports);
	return r;
}
