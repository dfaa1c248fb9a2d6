#include "embed/handle.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet_thread.h"
#include "embed/report.h"
#include "spec/request.h"

_Static_assert((int)SANDLOCK_UNSAID == (int)DISPOSE_UNSAID,
	       "dispositions differ");

/* ----------------------------------------------------------------- life -- */

static int copy_key(void *data, const char *key, const char *value)
{
	return request_set(data, key, value, key, NULL);
}

static int copy_string(const char *from, const char **to)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

int handle_copy_env(const struct sandlock_env *from, struct sandlock_env *to)
{
	if (!from)
		return 0;
	to->log = from->log;
	to->log_debug = from->log_debug;
	to->log_data = from->log_data;
	if (copy_string(from->root, &to->root) < 0 ||
	    copy_string(from->store, &to->store) < 0 ||
	    copy_string(from->program, &to->program) < 0)
		return -ENOMEM;
	return 0;
}

static int init_lock(struct sandlock_sandbox *s)
{
	int r = cond_init_monotonic(&s->changed);

	return r < 0 ? r : -pthread_mutex_init(&s->lock, NULL);
}

void handle_free_env(struct sandlock_env *env)
{
	free((char *)env->root);
	free((char *)env->store);
	free((char *)env->program);
}

/* Forgets the name and the roots of the last run. */
static void forget_run(struct sandlock_sandbox *s)
{
	free(take_ptr(&s->name));
	for (size_t i = 0; i < s->n_roots; i++) {
		free(s->roots[i].lower);
		free(s->roots[i].upper);
	}
	free(take_ptr(&s->roots));
	s->n_roots = 0;
}

static void free_handle(struct sandlock_sandbox *s)
{
	for (int i = 0; i < GUESTS; i++)
		if (s->guests[i].free)
			s->guests[i].free(s->guests[i].data);
	request_free(s->request);
	handle_free_env(&s->env);
	forget_run(s);
	report_clear(&s->report);
	free(s);
}

static int fill_request(struct request *to, const struct request *from,
			struct error *err)
{
	if (from->dry_run)
		return error_say(err, ERR_USAGE, EINVAL,
				 "dry_run: abort on exit and on error, and "
				 "look at the changes");
	if (request_each(from, copy_key, to) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "request");
	if (to->on_exit == DISPOSE_UNSAID)
		to->on_exit = DISPOSE_COMMIT;
	if (to->on_error == DISPOSE_UNSAID)
		to->on_error = DISPOSE_ABORT;
	return request_check(to, err);
}

API int sandlock_sandbox_new(const struct sandlock_env *env,
			     const struct sandlock_request *q,
			     struct sandlock_sandbox **ret,
			     struct sandlock_error *err)
{
	struct sandlock_sandbox *s = calloc(1, sizeof(*s));
	struct error e = ERROR_INIT;
	int r = 0;

	if (!s)
		return api_result(error_set(&e, ERR_SYSTEM, ENOMEM, "sandbox"),
				  &e, err);
	s->flight.process = (struct spawned)SPAWNED_INIT;
	s->flight.pidfd = -1;
	s->owner = getpid();
	s->request = request_new();
	if (!s->request || handle_copy_env(env, &s->env) < 0)
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "sandbox");
	if (r == 0)
		r = fill_request(s->request, q->request, &e);
	if (r == 0 && init_lock(s) < 0)
		r = error_set(&e, ERR_SYSTEM, EAGAIN, "sandbox");
	if (r < 0)
		free_handle(s);
	else
		*ret = s;
	return api_result(r, &e, err);
}

static bool is_over(const struct sandlock_sandbox *s)
{
	return s->state == SANDLOCK_SANDBOX_NEW ||
	       s->state == SANDLOCK_SANDBOX_ENDED;
}

void handle_end(struct sandlock_sandbox *s)
{
	handle_begin(s);
	if (s->state == SANDLOCK_SANDBOX_RUNNING) {
		(void)flight_signal(&s->flight, SIGKILL);
		(void)flight_pump(s, is_over, -1);
	}
	/* What was created and not started is undone when its end is seen. */
	flight_end(s);
	if (s->state == SANDLOCK_SANDBOX_CREATED)
		s->state = SANDLOCK_SANDBOX_NEW;
	handle_finish(s);
}

API void sandlock_sandbox_free(struct sandlock_sandbox *s)
{
	if (!s)
		return;
	if (s->owner != getpid()) {
		/* The threads of the guests are not here. */
		for (int i = 0; i < GUESTS; i++)
			s->guests[i].free = NULL;
		flight_forget(s);
		free_handle(s);
		return;
	}
	handle_end(s);
	(void)pthread_mutex_destroy(&s->lock);
	(void)pthread_cond_destroy(&s->changed);
	free_handle(s);
}

void handle_begin(struct sandlock_sandbox *s)
{
	(void)pthread_mutex_lock(&s->lock);
	while (s->busy)
		(void)pthread_cond_wait(&s->changed, &s->lock);
	s->busy = true;
}

/* That whose callback this thread is in. */
static _Thread_local const struct sandlock_sandbox *called_back;

void handle_calls_back(const struct sandlock_sandbox *s)
{
	called_back = s;
}

static int check_caller(const struct sandlock_sandbox *s, struct error *err)
{
	if (called_back != s)
		return 0;
	(void)error_say(err, ERR_STATE, EDEADLK,
			"a callback of the sandbox cannot wait for it");
	return error_hint(err, "it may kill it, or leave that to another "
			       "thread and return");
}

int handle_enter(struct sandlock_sandbox *s, struct error *err)
{
	int r = check_caller(s, err);

	if (r == 0)
		handle_begin(s);
	return r;
}

void handle_finish(struct sandlock_sandbox *s)
{
	s->busy = false;
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Getters lock too: what they read is written by whoever reads messages. */
static struct sandlock_sandbox *lock(const struct sandlock_sandbox *s)
{
	struct sandlock_sandbox *own = (struct sandlock_sandbox *)s;

	(void)pthread_mutex_lock(&own->lock);
	return own;
}

static void unlock(struct sandlock_sandbox *s)
{
	(void)pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------ run -- */

static int check_free(const struct sandlock_sandbox *s, struct error *err)
{
	if (!is_over(s))
		return error_say(err, ERR_STATE, EBUSY, "'%s' is running",
				 s->name);
	if (!s->pending)
		return 0;
	(void)error_say(err, ERR_STATE, EBUSY,
			"the branch of '%s' waits for a decision", s->name);
	return error_hint(err, "commit or abort it first");
}

static bool is_created(const struct sandlock_sandbox *s)
{
	return s->flight.created || s->flight.concluded;
}

static bool is_started(const struct sandlock_sandbox *s)
{
	return s->flight.started || s->flight.concluded;
}

static void let_go(struct sandlock_sandbox *s)
{
	(void)channel_send(s->flight.process.sock, CHANNEL_GO, 0, NULL, 0, -1);
}

/*
 * @go: it may be executed as soon as it is made, without asking us once more:
 * two switches between processes less.
 */
static int launch(struct sandlock_sandbox *s, struct sandlock_launch *l,
		  bool go, struct error *err)
{
	int r = check_free(s, err);

	if (r == 0 && s->is_stage && !s->may_run)
		r = error_say(err, ERR_STATE, EBUSY,
			      "a stage is run by its transaction");
	if (r < 0)
		return r;
	/* Whoever concludes the last run has not let go of it yet. */
	while (s->reading)
		(void)pthread_cond_wait(&s->changed, &s->lock);
	report_clear(&s->report);
	s->failure = (struct error)ERROR_INIT;
	forget_run(s);
	s->state = SANDLOCK_SANDBOX_NEW;
	r = flight_begin(s, l, err);
	if (r < 0)
		return r;
	if (go)
		let_go(s);
	(void)flight_pump(s, is_created, -1);
	if (s->flight.created && !s->flight.half_known) {
		s->state = SANDLOCK_SANDBOX_CREATED;
		return 0;
	}
	if (s->flight.created) {
		flight_end(s);
		return error_set(err, ERR_SYSTEM, ENOMEM, "sandbox");
	}
	*err = s->failure;
	return error_code(err);
}

/* On failure nobody has the caller's ends of pipes. */
static void close_pipe(struct sandlock_stdio *s)
{
	if (s->kind == SANDLOCK_STDIO_PIPE && s->fd >= 0)
		(void)close(take_fd(&s->fd));
}

static int await_start(struct sandlock_sandbox *s, struct error *err)
{
	/* From here on it may run, whoever hears of it first. */
	s->state = SANDLOCK_SANDBOX_RUNNING;
	(void)flight_pump(s, is_started, -1);
	if (s->flight.started)
		return 0;
	*err = s->failure;
	return error_code(err);
}

static int create(struct sandlock_sandbox *s, struct sandlock_launch *l,
		  bool go, struct sandlock_error *err)
{
	struct sandlock_stdio *streams[] = { &l->in, &l->out, &l->err };
	struct error e = ERROR_INIT;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (streams[i]->kind == SANDLOCK_STDIO_PIPE)
			streams[i]->fd = -1;
	r = handle_enter(s, &e);
	if (r < 0)
		return api_result(r, &e, err);
	r = launch(s, l, go, &e);
	if (r == 0 && go)
		r = await_start(s, &e);
	handle_finish(s);
	for (size_t i = 0; r < 0 && i < ARRAY_LEN(streams); i++)
		close_pipe(streams[i]);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_create(struct sandlock_sandbox *s,
				struct sandlock_launch *l,
				struct sandlock_error *err)
{
	return create(s, l, false, err);
}

API int sandlock_sandbox_spawn(struct sandlock_sandbox *s,
			       struct sandlock_launch *l,
			       struct sandlock_error *err)
{
	return create(s, l, true, err);
}

static int start(struct sandlock_sandbox *s, struct error *err)
{
	if (s->state != SANDLOCK_SANDBOX_CREATED)
		return error_say(err, ERR_STATE, EINVAL,
				 "nothing was created that could be started");
	let_go(s);
	return await_start(s, err);
}

API int sandlock_sandbox_start(struct sandlock_sandbox *s,
			       struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	r = handle_enter(s, &e);
	if (r < 0)
		return api_result(r, &e, err);
	r = start(s, &e);
	handle_finish(s);
	return api_result(r, &e, err);
}

static int wait_for(struct sandlock_sandbox *s, int timeout_ms,
		    const struct sandlock_report **ret, struct error *err)
{
	int64_t end = timeout_ms < 0 ? -1 : clock_now_ms() + timeout_ms;
	int r = 0;

	/* What runs may call back before its start has been reported. */
	if (end < 0 && s->state != SANDLOCK_SANDBOX_ENDED)
		r = check_caller(s, err);
	if (r < 0)
		return r;
	if (s->state == SANDLOCK_SANDBOX_NEW ||
	    s->state == SANDLOCK_SANDBOX_CREATED)
		return error_say(err, ERR_STATE, EINVAL,
				 "nothing was started that could be waited "
				 "for");
	if (flight_pump(s, is_over, end) < 0)
		return error_say(err, ERR_TIMEOUT, ETIMEDOUT,
				 "'%s' still runs after %d ms", s->name,
				 timeout_ms);
	if (s->failure.kind != ERR_NONE) {
		*err = s->failure;
		return error_code(err);
	}
	*ret = &s->report;
	return 0;
}

API int sandlock_sandbox_wait(struct sandlock_sandbox *s, int timeout_ms,
			      const struct sandlock_report **ret,
			      struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	(void)lock(s);
	r = wait_for(s, timeout_ms, ret, &e);
	unlock(s);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_run(struct sandlock_sandbox *s,
			     struct sandlock_launch *l,
			     const struct sandlock_report **ret,
			     struct sandlock_error *err)
{
	int r = sandlock_sandbox_spawn(s, l, err);

	return r == 0 ? sandlock_sandbox_wait(s, -1, ret, err) : r;
}

/* ---------------------------------------------------------- while it runs --
 */

static int check_runs(const struct sandlock_sandbox *s, struct error *err)
{
	if (s->state == SANDLOCK_SANDBOX_RUNNING ||
	    s->state == SANDLOCK_SANDBOX_CREATED)
		return 0;
	return error_say(err, ERR_STATE, ESRCH, "nothing runs");
}

API int sandlock_sandbox_signal(struct sandlock_sandbox *s, int sig,
				struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	(void)lock(s);
	r = check_runs(s, &e);
	if (r == 0) {
		r = flight_signal(&s->flight, sig);
		if (r < 0)
			(void)error_set(&e, ERR_STATE, -r, "cannot signal '%s'",
					s->name);
	}
	unlock(s);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_kill(struct sandlock_sandbox *s,
			      struct sandlock_error *err)
{
	return sandlock_sandbox_signal(s, SIGKILL, err);
}

/* Nothing more is said; not is_over: a callback that asks keeps it from that.
 */
static bool is_silent(const struct sandlock_sandbox *s)
{
	return s->flight.over || is_over(s);
}

static bool is_answered(const struct sandlock_sandbox *s)
{
	return s->flight.answered || is_silent(s);
}

static bool is_quiet(const struct sandlock_sandbox *s)
{
	return !s->flight.asking || is_silent(s);
}

static int ask(struct sandlock_sandbox *s, enum channel_type what, char **ret,
	       struct error *err)
{
	struct flight *f = &s->flight;
	int r = flight_pump(s, is_quiet, -1);

	if (r == 0)
		r = check_runs(s, err);
	if (r < 0)
		return r;
	f->asking = true;
	f->answered = false;
	r = channel_send(f->process.sock, what, 0, NULL, 0, -1);
	if (r == 0)
		(void)flight_pump(s, is_answered, -1);
	f->asking = false;
	if (r < 0 || !f->answered)
		return error_say(err, ERR_STATE, ESRCH, "nothing runs");
	if (f->answer < 0) {
		*err = f->answer_error;
		return error_code(err);
	}
	if (ret)
		*ret = buf_take(&f->answer_text, NULL);
	buf_clear(&f->answer_text);
	return ret && !*ret ? error_set(err, ERR_SYSTEM, ENOMEM, "answer") : 0;
}

static int ask_locked(struct sandlock_sandbox *s, enum channel_type what,
		      char **ret, struct sandlock_error *err)
{
	struct error e = ERROR_INIT;
	int r;

	(void)lock(s);
	r = ask(s, what, ret, &e);
	(void)pthread_cond_broadcast(&s->changed);
	unlock(s);
	return api_result(r, &e, err);
}

API int sandlock_sandbox_pause(struct sandlock_sandbox *s,
			       struct sandlock_error *err)
{
	return ask_locked(s, CHANNEL_PAUSE, NULL, err);
}

API int sandlock_sandbox_resume(struct sandlock_sandbox *s,
				struct sandlock_error *err)
{
	return ask_locked(s, CHANNEL_RESUME, NULL, err);
}

API int sandlock_sandbox_ports(struct sandlock_sandbox *s, char **ret_json,
			       struct sandlock_error *err)
{
	return ask_locked(s, CHANNEL_PORTS, ret_json, err);
}

API enum sandlock_sandbox_state
sandlock_sandbox_get_state(const struct sandlock_sandbox *s)
{
	struct sandlock_sandbox *own = lock(s);
	enum sandlock_sandbox_state state = s->state;

	unlock(own);
	return state;
}

API pid_t sandlock_sandbox_pid(const struct sandlock_sandbox *s)
{
	struct sandlock_sandbox *own = lock(s);
	pid_t pid = s->flight.pid;

	unlock(own);
	return pid;
}

API int sandlock_sandbox_name(const struct sandlock_sandbox *s, char **ret,
			      struct sandlock_error *err)
{
	struct sandlock_sandbox *own = lock(s);
	struct error e = ERROR_INIT;
	int r = 0;

	if (!s->name)
		r = error_say(&e, ERR_STATE, EINVAL,
			      "it has no name before it is created");
	else if (!(*ret = strdup(s->name)))
		r = error_set(&e, ERR_SYSTEM, ENOMEM, "name");
	unlock(own);
	return api_result(r, &e, err);
}
