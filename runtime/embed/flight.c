#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "embed/handle.h"
#include "spec/request.h"

enum {
	CAPTURE_MAX = 16 * 1024 * 1024,
	CHUNK = 64 * 1024,
	INIT_TIMEOUT_MS = 10000,
};

/* ------------------------------------------------------------- settings -- */

struct settings {
	struct buf b;
	const struct sandlock_launch *launch;
};

static void add_setting(void *data, const char *key, const char *value)
{
	struct settings *s = data;

	buf_add(&s->b, key, strlen(key) + 1);
	buf_add(&s->b, value, strlen(value) + 1);
}

/* What the launch says takes the place of what the request says. */
static int copy_setting(void *data, const char *key, const char *value)
{
	struct settings *s = data;

	if (s->launch->argv && (strcmp(key, "program.exec") == 0 ||
				strcmp(key, "program.args") == 0))
		return 0;
	add_setting(s, key, value);
	return 0;
}

static int make_settings(const struct sandlock_sandbox *s, struct settings *x)
{
	const struct sandlock_launch *l = x->launch;
	char text[32];
	int r;

	add_setting(x, SETTING_VERSION, SANDLOCK_VERSION);
	if (s->env.root)
		add_setting(x, SETTING_ROOT, s->env.root);
	if (s->env.store)
		add_setting(x, SETTING_STORE, s->env.store);
	if (s->env.log)
		add_setting(x, SETTING_LOG,
			    s->env.log_debug ? "debug" : "info");
	if (l->refuse_conflicts)
		add_setting(x, SETTING_REFUSE, "true");
	if (s->join)
		add_setting(x, SETTING_STAGE, "join");
	if (s->hand_on)
		add_setting(x, SETTING_STAGE, "hand_on");
	if (s->savepoints) {
		(void)snprintf(text, sizeof(text), "%zu", s->stage);
		add_setting(x, SETTING_STAGE, "hold");
		add_setting(x, SETTING_SAVEPOINTS, text);
	}
	handlers_each_setting(s, add_setting, x);
	r = request_each(s->request, copy_setting, x);
	for (size_t i = 0; l->argv && l->argv[i]; i++)
		add_setting(x, "program.args", l->argv[i]);
	if (l->timeout_ms) {
		(void)snprintf(text, sizeof(text), "%llums",
			       (unsigned long long)l->timeout_ms);
		add_setting(x, "limits.timeout", text);
	}
	return buf_failed(&x->b) ? -ENOMEM : r;
}

/* A supervisor that dies meanwhile has said why, or is found dead. */
static int send_settings(struct sandlock_sandbox *s,
			 const struct sandlock_launch *l, struct error *err)
{
	struct settings x = { .launch = l };
	int sock = s->flight.process.sock;
	int r = make_settings(s, &x);

	for (size_t at = 0, n; r == 0 && at < x.b.len; at += n) {
		n = x.b.len - at < CHANNEL_DATA_MAX ? x.b.len - at
						    : CHANNEL_DATA_MAX;
		r = channel_send(sock, CHANNEL_SETTINGS, 0, x.b.data + at, n,
				 -1);
	}
	buf_done(&x.b);
	if (r == 0)
		r = channel_send(sock, CHANNEL_RUN, 0, NULL, 0, -1);
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot tell the supervisor what to do");
	return 0;
}

static unsigned int invited(const struct sandlock_sandbox *s)
{
	unsigned int mask = 0;

	for (int i = 0; i < GUESTS; i++)
		if (s->guests[i].begin)
			mask |= 1U << i;
	return mask;
}

static int begin_guest(struct sandlock_sandbox *s, int i, struct error *err)
{
	struct flight *f = &s->flight;
	int r;

	f->guests_here |= 1U << i;
	f->guests_busy++;
	r = s->guests[i].begin(s->guests[i].data, f->process.guests[i], err);
	if (r < 0) {
		f->guests_here &= ~(1U << i);
		f->guests_busy--;
	}
	return r;
}

static int begin_guests(struct sandlock_sandbox *s, struct error *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < GUESTS; i++)
		if (invited(s) & 1U << i)
			r = begin_guest(s, i, err);
	return r;
}

void flight_guest_done(struct sandlock_sandbox *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->flight.guests_busy--;
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Ends of pipes that are not captured are the caller's. */
static void give_pipe(struct sandlock_stdio *s, int *ours)
{
	if (s->kind == SANDLOCK_STDIO_PIPE)
		s->fd = take_fd(ours);
}

int flight_begin(struct sandlock_sandbox *s, struct sandlock_launch *l,
		 struct error *err)
{
	struct flight *f = &s->flight;
	int r;

	*f = (struct flight){
		.process = SPAWNED_INIT,
		.pidfd = -1,
		.capture_max = l->capture_max ? l->capture_max : CAPTURE_MAX,
	};
	f->msg = malloc(sizeof(*f->msg));
	if (!f->msg)
		return error_set(err, ERR_SYSTEM, ENOMEM, "supervisor");
	r = spawn_supervisor(s->env.program, l, invited(s), &f->process, err);
	if (r == 0)
		r = begin_guests(s, err);
	if (r == 0)
		r = send_settings(s, l, err);
	if (r < 0) {
		flight_end(s);
		return r;
	}
	give_pipe(&l->in, &f->process.stdio[0]);
	give_pipe(&l->out, &f->process.stdio[1]);
	give_pipe(&l->err, &f->process.stdio[2]);
	f->capture_out = f->process.stdio[1] >= 0;
	f->capture_err = f->process.stdio[2] >= 0;
	return 0;
}

/* -------------------------------------------------------------- reading -- */

/* Of a part of the stream: 1, 0 at its end, -EAGAIN where there is no more. */
static int read_capture(int fd, struct capture *c, size_t max)
{
	char chunk[CHUNK];
	ssize_t n = read(fd, chunk, sizeof(chunk));
	size_t room;

	if (n < 0 && errno == EINTR)
		return 1;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	room = max - c->data.len;
	if ((size_t)n > room)
		c->cut = true;
	buf_add(&c->data, chunk, (size_t)n < room ? (size_t)n : room);
	return 1;
}

/* A stream that has ended would wake poll for ever. */
static void read_stream(struct flight *f, int number, struct capture *c)
{
	int *fd = &f->process.stdio[number];
	int r = read_capture(*fd, c, f->capture_max);

	if (r <= 0 && r != -EAGAIN)
		(void)close(take_fd(fd));
}

static void drain(struct flight *f, int number, struct capture *c)
{
	int fd = f->process.stdio[number];

	while (fd >= 0 && read_capture(fd, c, f->capture_max) == 1)
		;
}

/* The next of the strings in a message, or "". */
static const char *next_string(const struct channel_msg *m, size_t *at)
{
	const char *s = m->data + (*at < m->len ? *at : m->len);

	*at += strlen(s) + 1;
	return s;
}

static int add_root(struct sandlock_sandbox *s, const char *lower,
		    const char *upper)
{
	struct root *v = realloc(s->roots, (s->n_roots + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->roots = v;
	v[s->n_roots] = (struct root){ strdup(lower), strdup(upper) };
	s->n_roots++;
	return v[s->n_roots - 1].lower && v[s->n_roots - 1].upper ? 0 : -ENOMEM;
}

static int take_created(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;
	size_t at = 0;
	int r;

	f->pid = f->msg->value;
	f->pidfd = f->msg->fd;
	f->msg->fd = -1;
	f->created = true;
	s->name = strdup(next_string(f->msg, &at));
	r = s->name ? 0 : -ENOMEM;
	while (r == 0 && at < f->msg->len) {
		const char *lower = next_string(f->msg, &at);

		r = add_root(s, lower, next_string(f->msg, &at));
	}
	return r;
}

static void take_error(const struct channel_msg *m, struct error *ret)
{
	if (m->len == sizeof(*ret))
		memcpy(ret, m->data, sizeof(*ret));
	else
		(void)error_say(ret, ERR_SYSTEM, EPROTO, "half an error");
}

static void take_changes(struct sandlock_sandbox *s)
{
	struct channel_msg *m = s->flight.msg;
	int r = report_add(&s->report, s->roots, s->n_roots, m->data, m->len);
	struct error e = ERROR_INIT;

	if (r < 0)
		(void)api_result(error_set(&e, ERR_SYSTEM, -r, "changes"), &e,
				 &s->report.changes_error);
}

static void take_answer(struct flight *f)
{
	f->answer = f->msg->value;
	if (f->answer < 0)
		take_error(f->msg, &f->answer_error);
	else
		buf_add(&f->answer_text, f->msg->data, f->msg->len);
	f->answered = true;
}

static void take_loss(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;

	f->lost = f->over = true;
	if (!f->created) {
		(void)error_say(&f->error, ERR_SYSTEM, ECHILD,
				"the supervisor has ended without a word");
		(void)error_hint(&f->error,
				 "is it a sandlock program of this version?");
		return;
	}
	(void)error_say(&f->error, ERR_STATE, ECHILD,
			"supervisor of '%s' is not running", s->name);
	(void)error_hint(&f->error, "its branch, if any, is kept");
}

/* With the lock held, but for the callback of the log. */
static void take_message(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;

	switch (f->msg->type) {
	case CHANNEL_LOG:
		(void)pthread_mutex_unlock(&s->lock);
		if (s->env.log)
			s->env.log(s->env.log_data,
				   (enum sandlock_log_level)f->msg->value,
				   f->msg->data);
		(void)pthread_mutex_lock(&s->lock);
		break;
	case CHANNEL_CREATED:
		f->half_known = take_created(s) < 0;
		break;
	case CHANNEL_STARTED:
		f->started = true;
		break;
	case CHANNEL_FAILED:
		take_error(f->msg, &f->error);
		f->over = true;
		break;
	case CHANNEL_ANSWER:
		take_answer(f);
		break;
	case CHANNEL_CHANGES:
		take_changes(s);
		break;
	case CHANNEL_ENDED:
		f->ended = f->msg->len == sizeof(f->end);
		if (f->ended)
			memcpy(&f->end, f->msg->data, sizeof(f->end));
		else
			take_loss(s);
		f->over = true;
		break;
	case CHANNEL_SETTINGS:
	case CHANNEL_RUN:
	case CHANNEL_GO:
	case CHANNEL_PAUSE:
	case CHANNEL_RESUME:
	case CHANNEL_PORTS:
	case CHANNEL_SIGNAL:
		break;
	}
	if (f->msg->fd >= 0)
		(void)close(f->msg->fd);
}

static int time_left(int64_t end_ms)
{
	int64_t left;

	if (end_ms < 0)
		return -1;
	left = end_ms - clock_now_ms();
	if (left < 0)
		return 0;
	return left < INT32_MAX ? (int)left : INT32_MAX;
}

/* By the one reader; the lock is let go of meanwhile. */
static void read_some(struct sandlock_sandbox *s, int64_t end_ms)
{
	struct flight *f = &s->flight;
	struct pollfd p[] = {
		{ .fd = f->process.sock, .events = POLLIN },
		{ .fd = f->process.stdio[1], .events = POLLIN },
		{ .fd = f->process.stdio[2], .events = POLLIN },
	};
	int r = 1;

	(void)pthread_mutex_unlock(&s->lock);
	if (poll(p, ARRAY_LEN(p), time_left(end_ms)) < 0)
		p[0].revents = p[1].revents = p[2].revents = 0;
	if (p[1].revents)
		read_stream(f, 1, &f->out);
	if (p[2].revents)
		read_stream(f, 2, &f->err);
	if (p[0].revents)
		r = channel_recv(f->process.sock, f->msg);
	(void)pthread_mutex_lock(&s->lock);
	if (r <= 0)
		take_loss(s);
	else if (p[0].revents)
		take_message(s);
}

/* ------------------------------------------------------------------ end -- */

static void give_capture(struct capture *c, char **ret, size_t *ret_len,
			 bool *ret_cut)
{
	*ret_cut = c->cut || buf_failed(&c->data);
	*ret = buf_take(&c->data, ret_len);
}

/*
 * A supervisor that is lost may only have closed its end. It is reaped here
 * and nowhere else, so the number is its own, unless the host reaps everything.
 */
static void reap(struct flight *f)
{
	if (!f->process.pid)
		return;
	if (f->lost)
		(void)kill(f->process.pid, SIGKILL);
	while (waitpid(f->process.pid, NULL, 0) < 0 && errno == EINTR)
		;
	f->process.pid = 0;
}

/* By the supervisor where the call is not to be had: a filter, valgrind. */
int flight_signal(const struct flight *f, int sig)
{
	int r = pidfd_signal(f->pidfd, sig);

	return r == -ENOSYS ? channel_send(f->process.sock, CHANNEL_SIGNAL, sig,
					   NULL, 0, -1)
			    : r;
}

/* What the kernel kills with a supervisor that is lost. */
static void await_init(const struct flight *f)
{
	if (!f->lost || f->pidfd < 0)
		return;
	(void)pidfd_signal(f->pidfd, SIGKILL);
	(void)pidfd_wait(f->pidfd, INIT_TIMEOUT_MS);
}

void flight_forget(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;

	spawned_done(&f->process);
	if (f->pidfd >= 0)
		(void)close(take_fd(&f->pidfd));
	buf_done(&f->out.data);
	buf_done(&f->err.data);
	buf_done(&f->answer_text);
	free(take_ptr(&f->msg));
	f->pid = 0;
}

void flight_end(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;

	if (f->process.sock >= 0)
		(void)close(take_fd(&f->process.sock));
	reap(f);
	for (int i = 0; i < GUESTS; i++) {
		if (!(f->guests_here & 1U << i))
			continue;
		f->guests_here &= ~(1U << i);
		(void)pthread_mutex_unlock(&s->lock);
		s->guests[i].end(s->guests[i].data);
		(void)pthread_mutex_lock(&s->lock);
	}
	flight_forget(s);
}

/*
 * The payload is dead, so what is in the pipes is all there will be of it. The
 * lock is let go of while the supervisor ends.
 */
static void conclude(struct sandlock_sandbox *s)
{
	struct flight *f = &s->flight;
	struct sandlock_report *r = &s->report;

	(void)pthread_mutex_unlock(&s->lock);
	reap(f);
	await_init(f);
	if (f->capture_out)
		drain(f, 1, &f->out);
	if (f->capture_err)
		drain(f, 2, &f->err);
	(void)pthread_mutex_lock(&s->lock);
	if (f->ended) {
		r->result = f->end.result;
		if (f->end.changes_error.kind != SANDLOCK_ERR_NONE)
			r->changes_error = f->end.changes_error;
	}
	if (f->capture_out)
		give_capture(&f->out, &r->out_data, &r->out_len, &r->out_cut);
	if (f->capture_err)
		give_capture(&f->err, &r->err_data, &r->err_len, &r->err_cut);
	s->failure = f->error;
	s->state = f->started ? SANDLOCK_SANDBOX_ENDED : SANDLOCK_SANDBOX_NEW;
	if (f->started)
		decide_pending(s);
	flight_end(s);
	f->concluded = true;
}

int flight_pump(struct sandlock_sandbox *s, flight_done_fn *done,
		int64_t end_ms)
{
	struct timespec end = { .tv_sec = end_ms / 1000,
				.tv_nsec = end_ms % 1000 * 1000000 };

	for (bool late = false; !done(s);) {
		if (late)
			return -ETIMEDOUT;
		/* Nothing more is said while calls back are still running. */
		if (s->reading || (s->flight.over && s->flight.guests_busy)) {
			if (end_ms < 0)
				(void)pthread_cond_wait(&s->changed, &s->lock);
			else
				late = pthread_cond_timedwait(&s->changed,
							      &s->lock, &end) ==
				       ETIMEDOUT;
			continue;
		}
		/* Looked at once more where time is over. */
		late = end_ms >= 0 && clock_now_ms() >= end_ms;
		s->reading = true;
		if (!s->flight.over)
			read_some(s, end_ms);
		if (s->flight.over && !s->flight.guests_busy)
			conclude(s);
		s->reading = false;
		(void)pthread_cond_broadcast(&s->changed);
	}
	return 0;
}
