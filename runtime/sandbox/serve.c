#include "sandbox/serve.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "branch/change.h"
#include "control/server.h"
#include "kernel/landlock.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/live_limits.h"
#include "sandbox/mediate.h"
#include "spec/request.h"
#include "supervise/approvals.h"
#include "supervise/denials.h"
#include "supervise/denied_paths.h"
#include "supervise/net.h"

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct json_out, json_out_free);

enum {
	PAGE_BYTES = CONTROL_BODY_MAX - 256, /* with room for what is around */
	PAGE_MS = 500
};

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

static int answer_state(struct create *c, const struct control_request *q,
			struct buf *ret, struct error *err)
{
	enum sandbox_status s =
		c->slot ? state_status(c->slot, c->state) : STATUS_RUNNING;

	return state_to_json(c->state, c->plan->spec, sandbox_status_name(s),
			     s == STATUS_STOPPED ? 0 : c->state->init.pid,
			     false, ret, err);
}

static int open_branch(const struct create *c, struct store **st,
		       struct branch **ret, struct error *err)
{
	int r = store_open(c->state->store, NULL, st, err);

	return r == 0 ? branch_find(*st, c->state->name, ret, err) : r;
}

static int add_mount(void *data, const struct change *c)
{
	auto_(buf) struct buf b = BUF_INIT;

	buf_printf(&b, "%s%s%s", c->root ? c->root : "", c->root ? "/" : "",
		   c->path);
	json_out_bytes(data, buf_str(&b), b.len);
	return 0;
}

/* Mounts in the workdir that the branch does not cover. */
static int add_uncovered(const struct create *c, struct json_out *o,
			 struct error *err)
{
	auto_ptr(store_close) struct store *st = NULL;
	/* The run's own belongs to the main thread. */
	auto_ptr(branch_close) struct branch *b = NULL;
	int r;

	if (!c->branch)
		return 0;
	json_out_key(o, "uncovered");
	json_out_array(o);
	r = open_branch(c, &st, &b, err);
	if (r == 0)
		r = branch_uncovered(b, add_mount, o, err);
	json_out_array_end(o);
	return r;
}

static void add_namespaces(const struct spec *s, struct json_out *o)
{
	static const char *const names[SPEC_NS_COUNT] = {
		[SPEC_NS_USER] = "user",     [SPEC_NS_MOUNT] = "mount",
		[SPEC_NS_PID] = "pid",	     [SPEC_NS_NETWORK] = "network",
		[SPEC_NS_IPC] = "ipc",	     [SPEC_NS_UTS] = "uts",
		[SPEC_NS_CGROUP] = "cgroup", [SPEC_NS_TIME] = "time",
	};

	json_out_key(o, "namespaces");
	json_out_array(o);
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		if (s->ns[i].want != SPEC_NS_INHERIT)
			json_out_str(o, names[i]);
	json_out_array_end(o);
}

/* What it is not kept from by Landlock, because it was asked for. */
static void add_waived(const struct create *c, struct json_out *o)
{
	const struct request *r = c->command ? c->command->request : NULL;
	int abi = landlock_abi();

	json_out_key(o, "waived");
	json_out_array(o);
	for (int i = 0; r && i < PROTECT_COUNT; i++) {
		uint32_t bit = UINT32_C(1) << i;
		bool lacks = abi < protection_abi((enum protection)i);

		if (r->disabled & bit || (lacks && r->allow_degraded & bit))
			json_out_str(o, protection_name((enum protection)i));
	}
	json_out_array_end(o);
}

/* What Landlock lets it do, in tier C. */
static void add_paths(const struct plan *p, struct json_out *o)
{
	json_out_key(o, "paths");
	json_out_array(o);
	for (size_t i = 0; i < p->n_paths; i++) {
		const struct plan_path *x = &p->paths[i];

		json_out_object(o);
		json_out_key(o, "path");
		json_out_bytes(o, x->path, strlen(x->path));
		json_out_str_member(o, "access",
				    x->access & LANDLOCK_WRITE	 ? "write"
				    : x->access == LANDLOCK_LIST ? "list"
								 : "read");
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

/*
 * What became of it here: how it is isolated, and which calls the supervisor
 * is asked about.
 */
static void add_in_force(const struct create *c, struct json_out *o)
{
	struct net *net = c->mediation ? mediation_net(c->mediation) : NULL;

	json_out_key(o, "in_force");
	json_out_object(o);
	json_out_str_member(o, "tier", c->plan->notify ? "C" : "A");
	add_namespaces(c->plan->spec, o);
	json_out_int_member(o, "landlock_abi", landlock_abi());
	add_waived(c, o);
	if (c->plan->notify)
		add_paths(c->plan, o);
	json_out_key(o, "trapped");
	policy_traps_json(c->command ? c->command->request : NULL,
			  c->mediation ? c->plan->traps : 0, o);
	if (c->plan->untrapped)
		json_out_str_member(o, "untrapped", c->plan->untrapped);
	json_out_str_member(o, "branch",
			    !c->branch	      ? NULL
			    : c->plan->notify ? "notify"
					      : "overlay");
	if (c->denied_paths) {
		json_out_key(o, "denied_paths");
		denied_paths_json(c->denied_paths, o);
	}
	if (c->limits)
		live_limits_json(c->limits, o);
	if (net) {
		json_out_key(o, "restricted_network");
		net_restrictions_json(net, o);
	}
	json_out_object_end(o);
}

/* What a bundle was asked for is its config.json: its state, and that. */
static int answer_bundle(struct create *c, const struct control_request *q,
			 struct buf *ret, struct error *err)
{
	static const struct json_limits limits = { LIMIT_STATE_BYTES, 16,
						   LIMIT_CONFIG_VALUES };
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_ptr(json_free) struct json *state = NULL;
	auto_(buf) struct buf text = BUF_INIT;
	int r = answer_state(c, q, &text, err);

	if (r == 0)
		r = json_parse(text.data, text.len, &limits, "state", &state,
			       err);
	if (r < 0)
		return r;
	json_out_object(o);
	for (size_t i = 0; i < state->n; i++) {
		json_out_key(o, state->keys[i]);
		json_out_value(o, &state->items[i]);
	}
	add_in_force(c, o);
	json_out_object_end(o);
	return end_data(o, ret, err);
}

/* Paths as they are from anywhere. */
static int place(const struct request *q, struct request **ret,
		 struct error *err)
{
	auto_free char *cwd = getcwd(NULL, 0);

	/* Where it was removed nothing can be said of it. */
	return cwd && request_place(q, cwd, ret) < 0
		       ? error_set(err, ERR_SYSTEM, ENOMEM, "answer")
		       : 0;
}

/* Made at this moment, so that it is what is in force. */
static int answer_config(struct create *c, const struct control_request *q,
			 struct buf *ret, struct error *err)
{
	const struct request *request = c->command ? c->command->request : NULL;
	auto_ptr(request_free) struct request *placed = NULL;
	auto_ptr(json_out_free) struct json_out *o = NULL;
	const char *format = json_str_or(q->args, "format", "json");
	int r = 0;

	/* Another process than that of the caller is somewhere else. */
	if (request && c->die_with_parent)
		r = place(request, &placed, err);
	if (r < 0)
		return r;
	request = placed ? placed : request;
	if (strcmp(format, "toml") == 0 && request)
		return answer_toml(request, ret, err);
	if (strcmp(format, "toml") == 0)
		return error_say(err, ERR_UNSUPPORTED, EINVAL,
				 "'%s' is a bundle, for which there are no "
				 "profiles",
				 c->state->name);
	if (strcmp(format, "json") != 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "unknown format: %.64s", format);
	if (!request)
		return answer_bundle(c, q, ret, err);
	o = json_out_new(false);
	json_out_object(o);
	request_to_json(request, o);
	r = add_uncovered(c, o, err);
	add_in_force(c, o);
	json_out_object_end(o);
	return r == 0 ? end_data(o, ret, err) : r;
}

static int answer_ports(struct create *c, const struct control_request *q,
			struct buf *ret, struct error *err)
{
	struct net *net = c->mediation ? mediation_net(c->mediation) : NULL;
	int r = 0;

	if (net)
		r = net_ports_json(net, ret);
	else
		buf_add_str(ret, "{}");
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "answer") : 0;
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

static int answer_calls(struct create *c, const struct control_request *q,
			struct buf *ret, struct error *err)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;

	if (!c->mediation) {
		buf_add_str(ret, "{}");
		return 0;
	}
	o = json_out_new(false);
	mediation_calls(c->mediation, o);
	return end_data(o, ret, err);
}

static int take_passed(struct create *c, int passed_fd, pid_t pid,
		       struct buf *ret, struct error *err)
{
	int fd = fcntl(passed_fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? error_set(err, ERR_SYSTEM, errno, "listener")
		       : mediation_take_passed(c->mediation, pid, fd, err);

	if (r == 0)
		r = mediation_wake(c->mediation, err);
	if (r == 0)
		buf_add_str(ret, "{}");
	return r;
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
	if (q->fd >= 0)
		return take_passed(c, q->fd,
				   pid > 0 && pid <= INT_MAX
					   ? (pid_t)pid
					   : c->state->init.pid,
				   ret, err);
	if (pid <= 0 || pid > INT_MAX || fd < 0 || fd > INT_MAX)
		return error_say(err, ERR_USAGE, EINVAL,
				 "listen takes a pid and an fd");
	r = mediation_take(c->mediation, (pid_t)pid, (int)fd, err);
	if (r == 0)
		r = mediation_wake(c->mediation, err);
	if (r == 0)
		buf_add_str(ret, "{}");
	return r;
}

/* What `exec` asks of the guard of tier C: guard.h. */
static int answer_join(struct create *c, const struct control_request *q,
		       struct buf *ret, struct error *err)
{
	int r;

	if (!c->plan->notify)
		return error_say(err, ERR_STATE, EINVAL,
				 "'%s' has namespaces to join", c->state->name);
	if (q->fd < 0)
		return error_say(err, ERR_USAGE, EINVAL, "join takes a socket");
	r = fd_send(c->join_fd, "", 1, &q->fd, 1);
	if (r < 0)
		return error_set(err, ERR_STATE, -r,
				 "the guard of '%s' does not answer",
				 c->state->name);
	buf_add_str(ret, "{}");
	return 0;
}

/* args.after, a number as "next" gave it; 0 for the first page. */
static int read_after(const struct control_request *q, uint64_t *ret,
		      struct error *err)
{
	const struct json *after = json_get(q->args, "after");

	*ret = 0;
	if (after && json_uint64(after, ret) < 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'after' is no number");
	return 0;
}

static int answer_denials(struct create *c, const struct control_request *q,
			  struct buf *ret, struct error *err)
{
	uint64_t after;
	int r = read_after(q, &after, err);

	if (r < 0)
		return r;
	if (!c->denials) {
		buf_add_str(ret,
			    "{\"denials\":[],\"next\":null,\"dropped\":0}");
		return 0;
	}
	r = denials_page(c->denials, after, PAGE_BYTES, ret);
	return r < 0 ? error_set(err, ERR_SYSTEM, -r, "answer") : 0;
}

/*
 * A page of changes. The sandbox goes on writing: pages are not one picture.
 * Comparing may take long, and nobody else is answered meanwhile, so a page
 * also ends with its time.
 */
struct page {
	struct buf *ret;
	uint64_t after, seen;
	size_t begin;
	int64_t end_ms;
	bool more;
};

static int change_json(const struct change *c, struct buf *ret)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	const char letter[] = { change_letter(c->kind), '\0' };

	json_out_object(o);
	/* With several roots. */
	if (c->root) {
		json_out_key(o, "root");
		json_out_bytes(o, c->root, strlen(c->root));
	}
	json_out_key(o, "path");
	json_out_bytes(o, c->path, strlen(c->path));
	json_out_str_member(o, "change", letter);
	if (c->flags & CHANGE_CONTENT_SAME)
		json_out_bool_member(o, "content_unchanged", true);
	if (S_ISREG(c->after.mode))
		json_out_uint_member(o, "size", c->after.size);
	json_out_object_end(o);
	return json_out_end(o, ret);
}

static int add_change(void *data, const struct change *c)
{
	auto_(buf) struct buf text = BUF_INIT;
	struct page *p = data;
	bool first = p->ret->len == p->begin;

	if (p->seen < p->after) {
		p->seen++;
		return 0;
	}
	if (change_json(c, &text) < 0)
		return -ENOMEM;
	if (!first && (p->ret->len - p->begin + text.len > PAGE_BYTES ||
		       clock_now_ms() >= p->end_ms)) {
		p->more = true;
		return 1;
	}
	p->seen++;
	if (!first)
		buf_add_char(p->ret, ',');
	buf_add(p->ret, text.data, text.len - 1);
	return 0;
}

static int answer_changes(struct create *c, const struct control_request *q,
			  struct buf *ret, struct error *err)
{
	auto_ptr(store_close) struct store *st = NULL;
	auto_ptr(branch_close) struct branch *b = NULL;
	struct page p = { .ret = ret, .end_ms = clock_now_ms() + PAGE_MS };
	int r = read_after(q, &p.after, err);

	if (r < 0)
		return r;
	buf_add_str(ret, "{\"changes\":[");
	p.begin = ret->len;
	if (c->branch) {
		r = open_branch(c, &st, &b, err);
		if (r == 0)
			r = branch_changes(b, CHANGE_WANT_UNCHANGED, NULL, 0,
					   add_change, &p, err);
		if (r < 0)
			return r;
	}
	if (p.more)
		buf_printf(ret, "],\"next\":%llu}", (unsigned long long)p.seen);
	else
		buf_add_str(ret, "],\"next\":null}");
	return 0;
}

/* As many as fit; the rest are in the next page. */
struct approvals_page {
	struct buf *ret;
	size_t begin;
	uint64_t last;
	bool more;
};

static bool add_approval(void *data, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf b = BUF_INIT;
	struct approvals_page *p = data;
	bool first = p->ret->len == p->begin;

	approval_to_json(i, o);
	if (json_out_end(o, &b) < 0)
		return false;
	if (!first && p->ret->len + b.len > PAGE_BYTES) {
		p->more = true;
		return false;
	}
	if (!first)
		buf_add_char(p->ret, ',');
	buf_add(p->ret, b.data, b.len - 1);
	p->last = i->id;
	return true;
}

static int answer_approvals(struct create *c, const struct control_request *q,
			    struct buf *ret, struct error *err)
{
	struct approvals_page p = { .ret = ret };
	uint64_t after;
	int r = read_after(q, &after, err);

	if (r < 0)
		return r;
	buf_add_str(ret, "{\"approvals\":[");
	p.begin = ret->len;
	if (c->approvals)
		approvals_each(c->approvals, after, false, add_approval, &p);
	if (p.more)
		buf_printf(ret, "],\"next\":%llu}", (unsigned long long)p.last);
	else
		buf_add_str(ret, "],\"next\":null}");
	return 0;
}

/* "12-0a1b2c3d": the number, and the beginning of the digest. */
static int read_id(const char *text, uint64_t *ret_id, const char **ret_digest)
{
	char *end;

	if (*text < '1' || *text > '9')
		return -EINVAL;
	errno = 0;
	*ret_id = strtoull(text, &end, 10);
	if (errno || *end != '-')
		return -EINVAL;
	*ret_digest = end + 1;
	return 0;
}

static int answer_decide(struct create *c, const struct control_request *q,
			 struct buf *ret, struct error *err)
{
	const char *id_text = json_str_or(q->args, "id", "");
	const char *verdict = json_str_or(q->args, "verdict", "");
	bool allow = strcmp(verdict, "allow") == 0;
	int64_t error = json_int_or(q->args, "errno", EPERM);
	const char *digest;
	uint64_t id;
	int r;

	if (read_id(id_text, &id, &digest) < 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%.64s' is no approval: they look like "
				 "12-0a1b2c3d",
				 id_text);
	if (!allow && strcmp(verdict, "deny") != 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "a verdict is allow or deny");
	if (!allow && (error <= 0 || error >= 4096))
		return error_say(err, ERR_USAGE, EINVAL,
				 "'errno' is no error number");
	if (!c->approvals)
		return error_say(err, ERR_STATE, EINVAL, "'%s' asks nobody",
				 c->state->name);
	r = approvals_resolve(c->approvals, id, digest, allow ? 0 : (int)error,
			      json_str_or(q->args, "by", "socket"),
			      json_str_or(q->args, "reason", NULL), err);
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
	{ "approvals", answer_approvals },
	{ "calls",   answer_calls   },
	{ "changes", answer_changes },
	{ "config",  answer_config  },
	{ "decide",  answer_decide  },
	{ "denials", answer_denials },
	{ "inspect", answer_config  },
	{ "join",    answer_join    },
	{ "kill",    answer_kill    },
	{ "listen",  answer_listen  },
	{ "ports",   answer_ports   },
	{ "state",   answer_state   },
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

static void publish_denial(void *data, const char *json)
{
	control_server_publish(data, "denial", json);
}

static void publish_approval(void *data, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	auto_(buf) struct buf b = BUF_INIT;

	if (!control_server_is_heard(data))
		return;
	o = json_out_new(false);
	approval_to_json(i, o);
	if (json_out_end(o, &b) == 0)
		control_server_publish(data, "approval", buf_str(&b));
}

static bool is_wanted(const struct create *c)
{
	if (!c->slot || c->bundle->no_control_socket ||
	    c->bundle->no_supervisor)
		return false;
	return !c->command || !c->command->request->no_supervisor;
}

static int tell_events(struct create *c)
{
	if (!c->server)
		return 0;
	if (c->denials)
		denials_tell(c->denials, publish_denial, c->server);
	return c->approvals ? approvals_tell(c->approvals, publish_approval,
					     c->server)
			    : 0;
}

int serve_bind(const struct create *c, int *ret_fd, struct error *err)
{
	if (!is_wanted(c))
		return 0;
	return control_server_bind(rundir_slot_fd(c->slot), ret_fd, err);
}

int serve_adopt(struct create *c, int listen_fd, struct error *err)
{
	int r;

	if (listen_fd < 0)
		return 0;
	r = control_server_adopt(listen_fd, answer, c, &c->server, err);
	return r < 0 ? r : tell_events(c);
}

int serve_calls(struct create *c, struct error *err)
{
	int r;

	if (c->mediation)
		return mediation_wake(c->mediation, err);
	if (c->traps_fd < 0)
		return 0;
	r = mediation_begin(c, err);
	if (r == 0)
		r = serve_listener(c, take_fd(&c->traps_fd), err);
	if (r == 0)
		r = mediation_wake(c->mediation, err);
	return r < 0 ? r : tell_events(c);
}

int serve_fd(const struct create *c)
{
	return c->server ? control_server_fd(c->server) : -1;
}

int serve_begin(struct create *c, struct error *err)
{
	int r = serve_calls(c, err);

	if (r < 0)
		return r;
	return c->server ? control_server_begin(c->server, err) : 0;
}

void serve_client(struct create *c, int fd)
{
	if (c->server)
		control_server_take(c->server, fd);
	else
		(void)close(fd);
}

int serve_listener(struct create *c, int fd, struct error *err)
{
	/* The first listener has said that init is at its end. */
	if (!c->mediation) {
		(void)close(fd);
		return error_say(err, ERR_STATE, ESRCH, "'%s' is ending",
				 c->state->name);
	}
	return mediation_take_passed(c->mediation, c->state->init.pid, fd, err);
}

void serve_stop(struct create *c)
{
	if (c->denials)
		denials_tell(c->denials, NULL, NULL);
	if (c->approvals)
		approvals_untell(c->approvals, c->server);
	/* Who asks later is told by what was written down. */
	if (c->server)
		(void)unlinkat(rundir_slot_fd(c->slot), control_socket_name, 0);
	control_server_stop(take_ptr(&c->server));
}

int serve_ask(struct create *c, const char *verb, struct buf *ret,
	      struct error *err)
{
	const struct control_request q = { .verb = verb, .fd = -1 };

	return answer(c, &q, ret, err);
}
