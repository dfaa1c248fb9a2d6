/*
 * The process that an embedder gets for each sandbox: it runs the command as
 * `sandlock run` does, and says over its channel what happens.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "embed/channel.h"
#include "embed/report.h"
#include "embed/spawn.h"
#include "kernel/cgroup.h"
#include "sandbox/create.h"
#include "sandbox/serve.h"
#include "spec/request.h"

struct service {
	int sock;
	int embedder_fd;       /* pidfd */
	int watch_fd;	       /* epoll: both */
	int guest_fds[GUESTS]; /* for calls back, or -1 */
	unsigned int preserve_fds;
	struct sandbox_env env;
	struct log_sink sink;
	int log_max; /* enum log_level, or -1 */
	struct buf settings;
	struct request *request;
	bool refuse_conflicts;
	bool join, hand_on, hold, savepoints;
	size_t stage;
	bool orphaned; /* the embedder is dead */
	struct buf records;
	struct error changes_error;
	struct channel_msg msg;
};

static void forward_log(void *data, enum log_level level, const char *msg)
{
	struct service *s = data;

	if ((int)level > s->log_max)
		return;
	(void)channel_send(s->sock, CHANNEL_LOG, level, msg, strlen(msg), -1);
}

static int send_error(struct service *s, enum channel_type type,
		      const struct error *err)
{
	return channel_send(s->sock, type, -1, err, sizeof(*err), -1);
}

static int add_handled(struct request *r, const char *name, struct error *err)
{
	return spec_strings_add(&r->handled, name) < 0
		       ? error_set(err, ERR_SYSTEM, ENOMEM, "handlers")
		       : 0;
}

static void set_stage(struct service *s, const char *value)
{
	if (strcmp(value, "join") == 0)
		s->join = true;
	else if (strcmp(value, "hand_on") == 0)
		s->hand_on = true;
	else if (strcmp(value, "hold") == 0)
		s->hold = true;
}

static void set_savepoint(struct service *s, const char *value)
{
	s->savepoints = true;
	s->stage = strtoul(value, NULL, 10);
}

static int set(struct service *s, const char *key, const char *value,
	       struct error *err)
{
	if (strcmp(key, SETTING_VERSION) == 0) {
		if (strcmp(value, SANDLOCK_VERSION) == 0)
			return 0;
		return error_say(err, ERR_UNSUPPORTED, EPROTONOSUPPORT,
				 "the library is version %.32s, the program "
				 "that it has started %s",
				 value, SANDLOCK_VERSION);
	}
	if (strcmp(key, SETTING_ROOT) == 0)
		s->env.root = value;
	else if (strcmp(key, SETTING_STORE) == 0)
		s->env.store = value;
	else if (strcmp(key, SETTING_LOG) == 0)
		s->log_max = strcmp(value, "debug") == 0 ? LOG_LEVEL_DEBUG
							 : LOG_LEVEL_INFO;
	else if (strcmp(key, SETTING_REFUSE) == 0)
		s->refuse_conflicts = true;
	else if (strcmp(key, SETTING_HANDLED_MS) == 0)
		s->request->handled_timeout_ms = strtoull(value, NULL, 10);
	else if (strcmp(key, SETTING_HANDLER) == 0)
		return add_handled(s->request, value, err);
	else if (strcmp(key, SETTING_STAGE) == 0)
		set_stage(s, value);
	else if (strcmp(key, SETTING_SAVEPOINTS) == 0)
		set_savepoint(s, value);
	else
		return request_set(s->request, key, value, key, err);
	return 0;
}

static int apply_settings(struct service *s, struct error *err)
{
	const char *at = s->settings.data, *end = at + s->settings.len;
	int r = 0;

	while (r == 0 && at < end) {
		const char *key = at, *value = key + strlen(key) + 1;

		if (value >= end)
			return error_say(err, ERR_USAGE, EPROTO,
					 "half a setting");
		at = value + strlen(value) + 1;
		r = set(s, key, value, err);
	}
	return r;
}

static int lost(struct error *err)
{
	return error_say(err, ERR_STATE, ECANCELED,
			 "whoever asked for it is gone");
}

/*
 * The end of the stream is not enough: a child that the embedder has forked and
 * not executed holds its end too. @err NULL where there is nobody to tell.
 */
static int receive(struct service *s, struct error *err)
{
	int r;

	if (pidfd_wait(s->embedder_fd, 0) == 1)
		return lost(err);
	r = channel_recv(s->sock, &s->msg);
	if (r > 0 && s->msg.fd >= 0)
		(void)close(s->msg.fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "supervisor");
	return r == 0 ? lost(err) : 0;
}

static int read_settings(struct service *s, struct error *err)
{
	int r;

	for (;;) {
		r = receive(s, err);
		if (r < 0 || s->msg.type == CHANNEL_RUN)
			return r;
		if (s->msg.type != CHANNEL_SETTINGS ||
		    s->settings.len + s->msg.len > LIMIT_SETTINGS_BYTES)
			return error_say(err, ERR_USAGE, E2BIG,
					 "there is more to be set than fits");
		buf_add(&s->settings, s->msg.data, s->msg.len);
		if (buf_failed(&s->settings))
			return error_set(err, ERR_SYSTEM, ENOMEM, "settings");
	}
}

static int pause_it(struct create *c, bool pause, struct error *err)
{
	bool frozen = c->state->cgroup && cgroup_is_frozen(c->state->cgroup);

	return state_pause(c->state, frozen ? STATUS_PAUSED : STATUS_RUNNING,
			   pause, err);
}

static int answer(struct service *s, struct create *c)
{
	auto_(buf) struct buf text = BUF_INIT;
	struct error err = ERROR_INIT;
	int r;

	switch (s->msg.type) {
	case CHANNEL_SIGNAL:
		(void)pidfd_signal(c->pidfd, s->msg.value);
		return 0;
	case CHANNEL_PAUSE:
		r = pause_it(c, true, &err);
		break;
	case CHANNEL_RESUME:
		r = pause_it(c, false, &err);
		break;
	case CHANNEL_PORTS:
		r = serve_ask(c, "ports", &text, &err);
		break;
	default:
		r = error_say(&err, ERR_USAGE, EPROTO, "unknown request");
	}
	if (r == 0 && text.len > CHANNEL_DATA_MAX)
		r = error_say(&err, ERR_UNSUPPORTED, EMSGSIZE,
			      "the answer is too long");
	if (r < 0)
		return send_error(s, CHANNEL_ANSWER, &err);
	return channel_send(s->sock, CHANNEL_ANSWER, 0, text.data, text.len,
			    -1);
}

static void add_string(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s) + 1);
}

static int say_created(struct service *s, struct create *c, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	size_t n = c->branch ? branch_n_roots(c->branch) : 0;
	int r;

	add_string(&b, c->plan->name);
	for (size_t i = 0; i < n; i++) {
		const struct branch *root = branch_root(c->branch, i);

		add_string(&b, branch_lower(root));
		add_string(&b, branch_upper(root));
	}
	if (buf_failed(&b))
		return error_set(err, ERR_SYSTEM, ENOMEM, "supervisor");
	r = channel_send(s->sock, CHANNEL_CREATED, c->state->init.pid, b.data,
			 b.len, c->pidfd);
	return r < 0 ? lost(err) : 0;
}

/* Init may die before anybody says go: why is found out by going on. */
static int wait_for_go(struct service *s, struct create *c, struct error *err)
{
	struct pollfd p[] = {
		{ .fd = s->watch_fd, .events = POLLIN },
		{ .fd = c->pidfd, .events = POLLIN },
	};

	for (;;) {
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			return error_set(err, ERR_SYSTEM, errno, "poll");
		if (p[1].revents)
			return 0;
		if (!p[0].revents)
			continue;
		if (receive(s, err) < 0)
			return error_code(err);
		if (s->msg.type == CHANNEL_GO)
			return 0;
		if (answer(s, c) < 0)
			return lost(err);
	}
}

static int on_created(void *data, struct create *c, struct error *err)
{
	struct service *s = data;
	int r = say_created(s, c, err);

	return r < 0 ? r : wait_for_go(s, c, err);
}

/* Whether somebody still listens is seen by the watch. */
static void on_started(void *data)
{
	struct service *s = data;

	(void)channel_send(s->sock, CHANNEL_STARTED, 0, NULL, 0, -1);
}

static int on_watch(void *data, struct create *c)
{
	struct service *s = data;

	s->orphaned = receive(s, NULL) < 0;
	if (!s->orphaned)
		(void)answer(s, c);
	return s->orphaned;
}

/*
 * An embedder that has died asked for a disposition of what its command did,
 * not of what was cut off with it: that is nobody's decision, so it waits.
 */
static void on_ended(void *data, struct branch *b, struct exit_status *status)
{
	struct service *s = data;

	if (s->orphaned)
		status->kind = EXIT_UNKNOWN;
	else if (b)
		(void)report_collect(b, &s->records, &s->changes_error);
}

static int run(struct service *s, struct channel_end *ret, struct error *err)
{
	const struct command_hooks hooks = {
		.created = on_created,
		.started = on_started,
		.watch = on_watch,
		.watch_fd = s->watch_fd,
		.ended = on_ended,
		.data = s,
	};
	struct command_options o = {
		.request = s->request,
		.hooks = &hooks,
		.events_fd = s->guest_fds[GUEST_POLICY],
		.calls_fd = s->guest_fds[GUEST_HANDLERS],
		.preserve_fds = s->preserve_fds,
	};
	struct sandbox_result result;
	int r = read_settings(s, err);

	if (r == 0)
		r = apply_settings(s, err);
	o.force = !s->refuse_conflicts;
	o.join = s->join;
	o.hand_on = s->hand_on;
	o.hold = s->hold;
	o.savepoints = s->savepoints;
	o.stage = s->stage;
	if (r == 0 && proc_id_of(getppid(), &o.owner) < 0)
		r = lost(err);
	if (r == 0)
		r = sandbox_run_command(&s->env, &o, &result, err);
	if (r < 0)
		return r;
	api_result_of(&result, &ret->result);
	(void)api_result(s->changes_error.kind == ERR_NONE ? 0 : -1,
			 &s->changes_error, &ret->changes_error);
	return 0;
}

static int serve(struct service *s)
{
	struct error err = ERROR_INIT;
	struct channel_end end = { .result.name = "" };
	int r = run(s, &end, &err);

	if (r < 0)
		return send_error(s, CHANNEL_FAILED, &err);
	r = report_send(s->sock, &s->records);
	return r < 0 ? r
		     : channel_send(s->sock, CHANNEL_ENDED, 0, &end,
				    sizeof(end), -1);
}

static int watch(struct service *s)
{
	struct epoll_event e = { .events = EPOLLIN };
	pid_t embedder = getppid();

	s->embedder_fd = pidfd_open_pid(embedder);
	s->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->embedder_fd < 0 || s->watch_fd < 0 ||
	    epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, s->sock, &e) < 0 ||
	    epoll_ctl(s->watch_fd, EPOLL_CTL_ADD, s->embedder_fd, &e) < 0)
		return -1;
	/* It may have died, and its number be somebody else's. */
	return getppid() == embedder ? 0 : -1;
}

static int get_ready(struct service *s)
{
	int keep[] = { s->sock, s->guest_fds[GUEST_POLICY],
		       s->guest_fds[GUEST_HANDLERS] };

	s->request = request_new();
	if (!s->request || s->preserve_fds > LIMIT_PRESERVE_FDS ||
	    fd_cloexec_from(3 + s->preserve_fds) < 0 ||
	    fd_close_others(3 + s->preserve_fds, keep, ARRAY_LEN(keep)) < 0)
		return -1;
	s->sink = (struct log_sink){ forward_log, s };
	s->log_max = -1;
	s->env.log = &s->sink;
	return watch(s);
}

/* sandlock-supervisor PRESERVED-FDS CHANNEL-FD GUEST-FD..., -1: none */
API int sandlock_supervisor_main(int argc, char **argv)
{
	struct service *s = calloc(1, sizeof(*s));
	int r = -1;

	if (argc < 3 || argc > 3 + GUESTS || !s) {
		free(s);
		return 2;
	}
	s->preserve_fds = (unsigned int)strtoul(argv[1], NULL, 10);
	s->sock = (int)strtol(argv[2], NULL, 10);
	for (int i = 0; i < GUESTS; i++)
		s->guest_fds[i] =
			argc > 3 + i ? (int)strtol(argv[3 + i], NULL, 10) : -1;
	if (get_ready(s) == 0)
		r = serve(s);
	request_free(s->request);
	buf_done(&s->settings);
	buf_done(&s->records);
	free(s);
	return r < 0 ? 1 : 0;
}
