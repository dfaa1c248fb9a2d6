#include "sandbox/serve.h"

#include <limits.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "sandbox/create.h"
#include "sandbox/mediate.h"
#include "spec/request.h"

CLEANUP_PTR(struct json_out, json_out_free);

static int end_data(struct json_out *o, struct buf *ret, struct error *err)
{
	int r = json_out_end(o, ret);

	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "answer") : 0;
}

/* As a profile, in one string. */
static int answer_toml(const struct request *q, struct buf *ret,
		       struct error *err)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf text = BUF_INIT;
	int r = request_to_toml(q, &text);

	if (r == -EILSEQ)
		return error_say(err, ERR_UNSUPPORTED, EILSEQ,
				 "a profile is UTF-8, which not all of this "
				 "configuration is");
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "answer");
	json_out_object(o);
	json_out_str_member(o, "toml", buf_str(&text));
	json_out_object_end(o);
	return end_data(o, ret, err);
}

/* Made at this moment, so that it is what is in force. */
static int answer_config(struct create *c, const struct control_request *q,
			 struct buf *ret, struct error *err)
{
	const struct request *request = c->command->request;
	auto_ptr(json_out_free) struct json_out *o = NULL;
	const char *format = json_str_or(q->args, "format", "json");

	if (strcmp(format, "toml") == 0)
		return answer_toml(request, ret, err);
	if (strcmp(format, "json") != 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "unknown format: %.64s", format);
	o = json_out_new(false);
	json_out_object(o);
	request_to_json(request, o);
	json_out_object_end(o);
	return end_data(o, ret, err);
}

static int answer_state(struct create *c, const struct control_request *q,
			struct buf *ret, struct error *err)
{
	return state_to_json(c->state, c->plan->spec, "running",
			     c->state->init.pid, false, ret, err);
}

/* Nothing is remapped. */
static int answer_ports(struct create *c, const struct control_request *q,
			struct buf *ret, struct error *err)
{
	buf_add_str(ret, "{}");
	return 0;
}

static int answer_kill(struct create *c, const struct control_request *q,
		       struct buf *ret, struct error *err)
{
	int r = pidfd_signal(c->pidfd, SIGKILL);

	if (r < 0)
		return error_set(err, ERR_STATE, -r, "cannot kill '%s'",
				 c->state->name);
	buf_add_str(ret, "{}");
	return 0;
}

/* What `exec` starts is under the same filter, and brings its listener. */
static int answer_listen(struct create *c, const struct control_request *q,
			 struct buf *ret, struct error *err)
{
	int64_t pid = json_int_or(q->args, "pid", -1);
	int64_t fd = json_int_or(q->args, "fd", -1);
	int r;

	if (!c->mediation)
		return error_say(err, ERR_STATE, EINVAL, "'%s' has no listener",
				 c->state->name);
	if (pid <= 0 || pid > INT_MAX || fd < 0 || fd > INT_MAX)
		return error_say(err, ERR_USAGE, EINVAL,
				 "listen takes a pid and an fd");
	r = mediation_take(c->mediation, (pid_t)pid, (int)fd, err);
	if (r == 0)
		buf_add_str(ret, "{}");
	return r;
}

/* clang-format off */
static const struct {
	const char *verb;
	int (*answer)(struct create *c, const struct control_request *q,
		      struct buf *ret, struct error *err);
} verbs[] = {
	{ "config", answer_config },
	{ "kill",   answer_kill   },
	{ "listen", answer_listen },
	{ "ports",  answer_ports  },
	{ "state",  answer_state  },
};
/* clang-format on */

static int answer(void *data, const struct control_request *q, struct buf *ret,
		  struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].verb, q->verb) == 0)
			return verbs[i].answer(data, q, ret, err);
	return error_say(err, ERR_USAGE, EINVAL, "unknown verb: %.200s",
			 q->verb);
}

int serve_start(struct create *c, struct control_server **ret,
		struct error *err)
{
	if (!c->command || !c->slot || c->command->request->no_supervisor)
		return 0;
	return control_server_start(rundir_slot_fd(c->slot), answer, c, ret,
				    err);
}
