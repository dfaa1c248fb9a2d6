#include "sandbox/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "control/client.h"
#include "sandbox/lookup.h"

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct json_out, json_out_free);

/* {"8080":41234} as "8080->41234", NULL where there are none. */
static char *format_ports(const struct json *ports)
{
	auto_(buf) struct buf b = BUF_INIT;

	if (!ports || ports->type != JSON_OBJECT || !ports->n)
		return NULL;
	for (size_t i = 0; i < ports->n; i++)
		if (ports->items[i].type == JSON_NUMBER)
			buf_printf(&b, "%s%s->%s", b.len ? ", " : "",
				   ports->keys[i], ports->items[i].text);
	return buf_take(&b, NULL);
}

int inspect_ports(struct rundir *d, struct sandbox_info *v, size_t n)
{
	auto_free struct control_call *calls = calloc(n + 1, sizeof(*calls));
	size_t asked = 0;

	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (v[i].remaps)
			calls[asked++] =
				(struct control_call){ .name = v[i].name,
						       .verb = "ports" };
	control_ask_all(d, calls, asked);
	for (size_t i = 0, k = 0; i < n; i++) {
		if (!v[i].remaps)
			continue;
		v[i].ports = format_ports(calls[k].answer);
		json_free(calls[k++].answer);
	}
	return 0;
}

static int give_toml(const struct json *answer, struct buf *ret,
		     struct error *err)
{
	const char *text = json_str_or(answer, "toml", NULL);

	if (!text)
		return error_say(err, ERR_STATE, EPROTO,
				 "the answer has no profile in it");
	buf_add_str(ret, text);
	return 0;
}

static int give_json(const struct json *answer, struct buf *ret,
		     struct error *err)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(true);

	json_out_value(o, answer);
	return json_out_end(o, ret) < 0
		       ? error_set(err, ERR_SYSTEM, ENOMEM, "answer")
		       : 0;
}

int sandbox_inspect(const struct sandbox_env *env, const char *name, bool toml,
		    struct buf *ret, struct error *err)
{
	auto_ptr(json_free) struct json *answer = NULL;
	struct error local = ERROR_INIT;
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, &local);

	if (r == 0)
		r = control_ask(f.rundir, name, "config",
				toml ? "{\"format\":\"toml\"}" : NULL, &answer,
				&local);
	/* Without a supervisor there is still what was written down. */
	if (r < 0 && f.state && local.sys == ENOENT && !toml)
		r = sandbox_state_json(env, name, ret, &local);
	else if (r == 0)
		r = toml ? give_toml(answer, ret, &local)
			 : give_json(answer, ret, &local);
	found_done(&f);
	if (r < 0 && err)
		*err = local;
	return r;
}

int sandbox_ports(const struct sandbox_env *env, const char *name,
		  struct buf *ret, struct error *err)
{
	auto_ptr(json_free) struct json *answer = NULL;
	struct found f = { 0 };
	int r = found_open(env, name, false, &f, err);

	if (r == 0)
		r = control_ask(f.rundir, name, "ports", NULL, &answer, err);
	if (r == 0)
		r = give_json(answer, ret, err);
	found_done(&f);
	return r;
}
